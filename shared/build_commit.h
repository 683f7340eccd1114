// Which sources a program was built from.
#pragma once

namespace penstock {

/// "f34bae4c11"; "-dirty" behind it if tracked files differed from that commit; "unknown" outside a repository.
const char* build_commit();

}  // namespace penstock

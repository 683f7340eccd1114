// One anonymous mapping, zeroed, touched before anything is timed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::exec {

class Arena {
 public:
  Arena() = default;
  /// Throws DoesNotFit with the system's reason. `what` names it in the message ("hbm").
  Arena(std::int64_t bytes, const char* what);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace penstock::exec

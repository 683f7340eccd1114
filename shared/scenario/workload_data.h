// [workload] data: the file of tokens that a step's rows are made of, as far as it decides the schedule and its cost.
#pragma once

#include "shared/scenario/scenario.h"

namespace penstock {

/// Sets `rows` and `squared_lengths` by the file `scenario.data`, of which a run would train on the same rows. Throws
/// InputError as TokenFile and RowPacking do, and if it is no file of tokens. REQUIRES: model and sequence length.
void take_rows_of_data(Scenario& scenario);

/// Where [workload] says nothing of its data: the same by the file that a run trains on, if that is there and is packed.
void take_rows_of_run(const std::filesystem::path& of_run, Scenario& scenario);

}  // namespace penstock

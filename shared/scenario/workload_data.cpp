#include "shared/scenario/workload_data.h"

#include <fmt/format.h>

#include "shared/data/packing.h"
#include "shared/error.h"

namespace penstock {

void take_rows_of_data(Scenario& scenario) {
  const auto format = token_format(scenario.data);
  if (!format) {
    const MappedFile file(scenario.data);  // empty ones, folders and pipes are refused as such
    throw InputError(fmt::format(
        "{}: [workload] data: is no file of tokens as scripts/prepare or llm.c write them; of others rows are windows "
        "of one text, which is what is assumed without the key",
        file.path().string()));
  }
  // Ids play no part, and a scenario is read often; a run checks the whole file when it opens it.
  const TokenFile file(scenario.data, *format, scenario.model.config.vocabulary, TokenFileCheck::documents);
  if (!needs_packing(file)) return;
  constexpr std::uint64_t kAnySeed = 0;  // lengths alone decide the rows' shapes
  scenario.rows = BatchKind::packed;
  scenario.squared_lengths = RowPacking(file, scenario.sequence_length, kAnySeed).report().squared_lengths;
}

void take_rows_of_run(const std::filesystem::path& of_run, Scenario& scenario) {
  const bool is_said = !scenario.data.empty() || scenario.rows != BatchKind::windows;
  if (is_said || !header_needs_packing(of_run)) return;
  scenario.data = of_run;
  take_rows_of_data(scenario);
}

}  // namespace penstock

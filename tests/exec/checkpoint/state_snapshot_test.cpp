#include "exec/checkpoint/state_snapshot.h"

#include <gtest/gtest.h>

#include "tests/exec/checkpoint/small_checkpoint.h"

namespace penstock::exec {
namespace {

/// What was loaded later is not in a copy that was taken before, whatever the states' format and place.
TEST(StateSnapshot, HoldsWhatTheMemoriesHeldWhenItWasTaken) {
  for (const StateFormat format : {StateFormat::planes, StateFormat::master_and_copy, StateFormat::bf16})
    for (const char* policy : {"penstock", "resident"}) {
      PolicyInput in = small::input(small::llama(), policy);
      in.parameters.numerics.states = format;
      SmallRun run(in);
      SCOPED_TRACE(policy);
      run.training().load(*random_states(1));
      const std::uint64_t before = run.training().states().fingerprint();
      StateSnapshot snapshot(run.schedule(), run.model());
      snapshot.take(run.training().memories(), 2);
      run.training().load(*random_states(2));
      EXPECT_NE(run.training().states().fingerprint(), before);
      EXPECT_EQ(snapshot.states().fingerprint(), before);
      snapshot.take(run.training().memories(), 2);
      EXPECT_EQ(snapshot.states().fingerprint(), run.training().states().fingerprint());
    }
}

/// 12 bytes a parameter of planes with fp32 moments, whatever is padded to; what lies in two tiers is copied once.
TEST(StateSnapshot, TakesWhatTheStatesTake) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.numerics.states = StateFormat::planes;
  const SmallRun run(in);
  std::int64_t elements = 0;
  for (const Layer& layer : run.model().layers) elements += layer.state_elements;
  EXPECT_GE(snapshot_bytes(run.schedule()), 12 * elements);
  EXPECT_LE(snapshot_bytes(run.schedule()), 12 * elements * 11 / 10);
}

}  // namespace
}  // namespace penstock::exec

#include "shared/ir/checker.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/error.h"
#include "shared/ir/graph.h"
#include "tests/shared/ir/small_schedule.h"

namespace penstock {
namespace {

std::string all_texts(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) text += fault.text + "\n";
  return text;
}

/// Exactly one fault, of that kind, whose text has all the parts.
void expect_fault(const Schedule& schedule, FaultKind kind, const std::vector<std::string>& parts) {
  const std::vector<Fault> faults = check_schedule(schedule);
  ASSERT_EQ(faults.size(), 1u) << all_texts(faults);
  EXPECT_EQ(faults[0].kind, kind) << faults[0].text;
  for (const std::string& part : parts)
    EXPECT_NE(faults[0].text.find(part), std::string::npos) << part << "\nis not in\n" << faults[0].text;
}

std::string title(Schedule& schedule, const char* name) {
  return fmt::format("'{}' (op {})", name, op_named(schedule, name).id);
}

TEST(Checker, AcceptsTheSmallSchedules) {
  for (const bool tied : {false, true})
    for (const bool sum_on_host : {false, true})
      for (const int micro_batches : {1, 3}) {
        SmallOptions options;
        options.tied = tied;
        options.sum_on_host = sum_on_host;
        options.micro_batches = micro_batches;
        EXPECT_EQ(all_texts(check_schedule(small_schedule(options))), "") << tied << sum_on_host << micro_batches;
      }
}

// The edges of the small schedule are all hazards without the implied ones, so that each one is needed.
TEST(Checker, MissesNoEdgeThatIsDropped) {
  const Schedule whole = small_schedule();
  ASSERT_GT(whole.edges.size(), 20u);
  for (std::size_t i = 0; i < whole.edges.size(); ++i) {
    ASSERT_FALSE(edge_implied(whole, i));
    Schedule schedule = whole;
    schedule.edges.erase(schedule.edges.begin() + static_cast<std::ptrdiff_t>(i));
    const std::vector<Fault> faults = check_schedule(schedule);
    const Edge& edge = whole.edges[i];
    // Accesses that other edges ordered through this one come up too; the dropped pair is among them.
    const bool named = std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
      return fault.kind == FaultKind::race && fault.first_op == edge.from && fault.second_op == edge.to;
    });
    EXPECT_TRUE(named) << edge.from << " -> " << edge.to << " distance " << edge.distance << "\n" << all_texts(faults);
  }
}

// The second upload into slot 0 overwrites the weights that `forward 0` reads: it must wait for the last of its ops.
TEST(Checker, FindsARaceWithinAStep) {
  Schedule schedule = small_schedule();
  const int forward = op_named(schedule, "forward 0 #2").id, upload = op_named(schedule, "upload forward 2").id;
  const int edge = edge_between(schedule, forward, upload, 0);
  ASSERT_GE(edge, 0);
  schedule.edges.erase(schedule.edges.begin() + edge);
  const std::vector<Fault> faults = check_schedule(schedule);
  ASSERT_EQ(faults.size(), 1u) << all_texts(faults);
  EXPECT_EQ(faults[0].kind, FaultKind::race);
  EXPECT_EQ(faults[0].first_op, forward);
  EXPECT_EQ(faults[0].second_op, upload);
  // 128 x 64 bf16 weights of the embedding.
  EXPECT_EQ(
      faults[0].text,
      fmt::format(
          "{} reads weights/0@0 in bytes [0, 16384) of buffer 'slot 0' (hbm), and {} writes weights/2@0 there, but "
          "nothing makes the second wait for the first: an edge from op {} to op {} of distance 0 would",
          title(schedule, "forward 0 #2"), title(schedule, "upload forward 2"), forward, upload));
}

// adam 0 writes hi of layer 0 while the next step's first upload reads it.
TEST(Checker, FindsARaceAcrossSteps) {
  Schedule schedule = small_schedule();
  const int adam = op_named(schedule, "adam 0").id, upload = op_named(schedule, "upload forward 0").id;
  const int edge = edge_between(schedule, adam, upload, 1);
  ASSERT_GE(edge, 0);
  schedule.edges.erase(schedule.edges.begin() + edge);
  expect_fault(schedule, FaultKind::race,
               {title(schedule, "adam 0") + " of the step before writes weights/0@1", "of distance 1 would"});
}

// Layer 1's weights are sent where the forward of layer 2 looks for its own.
TEST(Checker, FindsTheWrongLayerInASlot) {
  Schedule schedule = small_schedule();
  Op& upload = op_named(schedule, "upload forward 2");
  const Op& other = op_named(schedule, "upload forward 1");
  upload.reads[0] = other.reads[0];
  upload.writes[0].value.layer = 1;
  derive_edges(schedule);
  const std::vector<Fault> faults = check_schedule(schedule);
  ASSERT_EQ(faults.size(), 3u) << all_texts(faults);  // one for each micro-batch
  EXPECT_EQ(faults[0].kind, FaultKind::wrong_value);
  EXPECT_EQ(faults[0].first_op, upload.id);
  EXPECT_EQ(faults[0].second_op, op_named(schedule, "forward 2 #0").id);
  EXPECT_NE(faults[0].text.find("reads weights/2@0 in bytes [0, "), std::string::npos) << faults[0].text;
  EXPECT_NE(faults[0].text.find("but finds weights/1@0"), std::string::npos) << faults[0].text;
  EXPECT_NE(faults[0].text.find("left by 'upload forward 2'"), std::string::npos) << faults[0].text;
}

// A copy for the next step, placed before the update that it should bring.
TEST(Checker, FindsAStaleVersion) {
  Schedule schedule = small_schedule();
  Op upload = op_named(schedule, "upload forward 0");
  upload.name = "upload next 0";
  upload.reads[0].value.version = upload.writes[0].value.version = 1;
  schedule.ops.push_back(upload);
  schedule.ops.back().id = static_cast<int>(schedule.ops.size()) - 1;
  derive_edges(schedule);
  ASSERT_EQ(all_texts(check_schedule(schedule)), "");  // behind the update: right
  move_op(schedule, "upload next 0", "adam 0");
  expect_fault(
      schedule, FaultKind::wrong_value,
      {title(schedule, "upload next 0") + " reads weights/0@1", "finds weights/0@0", "it was taken before the update"});
}

// Uploaded after adam 2 has run, the weights of the backward are those of the next step.
TEST(Checker, FindsAVersionFromTheFuture) {
  Schedule schedule = small_schedule();
  Op upload = op_named(schedule, "upload forward 2");
  upload.name = "late";
  schedule.ops.push_back(upload);
  schedule.ops.back().id = static_cast<int>(schedule.ops.size()) - 1;
  derive_edges(schedule);
  expect_fault(schedule, FaultKind::wrong_value,
               {"'late'", "reads weights/2@0", "finds weights/2@1", "it was updated before this read"});
}

TEST(Checker, FindsALostMicroBatch) {
  Schedule schedule = small_schedule();
  Op& backward = op_named(schedule, "backward 1 #1");
  std::erase_if(backward.reads,
                [](const Access& a) { return a.value.tensor == TensorKind::gradient_sum; });  // starts anew
  derive_edges(schedule);
  expect_fault(schedule, FaultKind::incomplete,
               {title(schedule, "finish 1"), "2 of 3 contributions", "micro-batch 0 is missing",
                title(schedule, "backward 1 #1")});
}

TEST(Checker, FindsALostMicroBatchOfTheTiedHead) {
  SmallOptions options;
  options.tied = true;
  Schedule schedule = small_schedule(options);
  Op& loss = op_named(schedule, "loss #2");
  std::erase_if(loss.reads, [](const Access& a) { return a.value.tensor == TensorKind::gradient_sum; });
  derive_edges(schedule);
  const std::vector<Fault> faults = check_schedule(schedule);
  ASSERT_EQ(faults.size(), 2u) << all_texts(faults);  // the embedding's update needs the head's contributions too
  EXPECT_EQ(faults[0].second_op, op_named(schedule, "finish 0").id);
  EXPECT_NE(faults[0].text.find("the gradient of layer 3 with 1 of 3 contributions: micro-batch 0 is missing"),
            std::string::npos)
      << faults[0].text;
  EXPECT_EQ(faults[1].second_op, op_named(schedule, "finish 3").id);
}

TEST(Checker, FindsADoubleContribution) {
  Schedule schedule = small_schedule();
  Op again = op_named(schedule, "backward 0 #2");
  const int id = again.id;
  again.name = "again";
  for (Access& read : again.reads)
    if (read.value.tensor == TensorKind::gradient_sum) read.value.micro_batch = 2;
  schedule.ops.insert(schedule.ops.begin() + id + 1, again);
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) schedule.ops[i].id = static_cast<int>(i);
  derive_edges(schedule);
  expect_fault(schedule, FaultKind::incomplete,
               {title(schedule, "again") + " adds micro-batch 2 to the gradient of layer 0 a second time",
                title(schedule, "backward 0 #2")});
}

// The sum goes 1, 0, 2 instead of 0, 1, 2: the same set, other bits.
TEST(Checker, FindsContributionsOutOfOrder) {
  Schedule schedule = small_schedule();
  const auto sum_read = [&](const char* name) {
    std::vector<Access>& reads = op_named(schedule, name).reads;
    return std::find_if(reads.begin(), reads.end(),
                        [](const Access& a) { return a.value.tensor == TensorKind::gradient_sum; });
  };
  Access sum = *sum_read("loss #1");
  op_named(schedule, "loss #1").reads.erase(sum_read("loss #1"));
  sum.value.micro_batch = 1;
  op_named(schedule, "loss #0").reads.push_back(sum);
  sum_read("loss #2")->value.micro_batch = 0;
  move_op(schedule, "loss #1", "loss #0");
  const std::vector<Fault> faults = check_schedule(schedule);
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults[0].kind, FaultKind::incomplete);
  EXPECT_NE(faults[0].text.find(fmt::format("{} adds micro-batch 0 to the gradient of layer 3 after {}",
                                            title(schedule, "loss #0"), title(schedule, "loss #1"))),
            std::string::npos)
      << faults[0].text;
}

TEST(Checker, FindsANormBeforeTheLastContribution) {
  Schedule schedule = small_schedule();
  Op& finish = op_named(schedule, "finish 1");
  finish.reads[0].value.micro_batch = 1;
  Op& download = op_named(schedule, "download sum 1");
  download.reads[0].value.micro_batch = download.writes[0].value.micro_batch = 1;
  move_op(schedule, "download sum 1", "backward 1 #2");
  expect_fault(schedule, FaultKind::incomplete,
               {title(schedule, "finish 1") + " finishes the gradient of layer 1 with 2 of 3 contributions",
                "micro-batch 2 is missing"});
}

TEST(Checker, FindsALayerOutsideTheNorm) {
  Schedule schedule = small_schedule();
  Op& scalars = op_named(schedule, "scalars");
  scalars.reads.erase(scalars.reads.begin() + 2);
  derive_edges(schedule);
  expect_fault(schedule, FaultKind::incomplete,
               {title(schedule, "scalars") + " leaves layer 2 out of the norm", "norm_partial/2@0"});
}

TEST(Checker, FindsTwoUpdatesAndNone) {
  Schedule twice = small_schedule();
  Op again = op_named(twice, "adam 3");
  again.name = "adam again";
  again.id = static_cast<int>(twice.ops.size());
  for (std::size_t i = 0; i < 4; ++i) again.reads[i].value.version = 1;
  twice.ops.push_back(again);
  derive_edges(twice);
  const std::vector<Fault> faults = check_schedule(twice);
  const std::string wanted = fmt::format("layer 3 is updated twice in one step, by {} and by {}",
                                         title(twice, "adam 3"), title(twice, "adam again"));
  EXPECT_NE(all_texts(faults).find(wanted), std::string::npos) << all_texts(faults);

  Schedule none = small_schedule();
  remove_op(none, "adam 3");
  derive_edges(none);
  const std::string text = all_texts(check_schedule(none));
  EXPECT_NE(text.find("layer 3 has no optimizer op"), std::string::npos) << text;
  EXPECT_NE(text.find("holds weights/3@-1, which lies there initially, where the next step expects weights/3@1"),
            std::string::npos)
      << text;
}

// Weights that also stay in HBM: a second initial place, which nothing updates.
TEST(Checker, FindsACopyThatIsNotUpdated) {
  Schedule schedule = small_schedule();
  const std::int64_t bytes = schedule.initial[0].bytes, end = schedule.tiers[0].capacity_bytes;
  const int buffer = static_cast<int>(schedule.buffers.size());
  schedule.tiers[0].capacity_bytes += bytes;
  schedule.buffers.push_back({"resident 0", 0, end, bytes});
  const Access resident{buffer, 0, bytes, {TensorKind::weights, 0, 0, -1}};
  schedule.initial.push_back(resident);
  expect_fault(
      schedule, FaultKind::wrong_value,
      {"at the end of the step bytes [0, 16384) of buffer 'resident 0' (hbm) holds weights/0@-1", "expects weights/0@1",
       title(schedule, "adam 0") + " updates the layer, and no later op brings the new value here"});

  // A copy op behind the update mends it.
  Op refresh;
  refresh.id = static_cast<int>(schedule.ops.size());
  refresh.name = "refresh 0";
  refresh.lane = 1;
  refresh.layer = 0;
  refresh.phase = Phase::optimizer;
  refresh.work = CopyWork{{{bytes, 1}}};
  refresh.reads = {schedule.initial[0]};
  refresh.writes = {resident};
  refresh.reads[0].value.version = refresh.writes[0].value.version = 1;
  schedule.ops.push_back(refresh);
  derive_edges(schedule);
  EXPECT_EQ(all_texts(check_schedule(schedule)), "");
}

TEST(Checker, RefusesThreadsWhereNoHostCopies) {
  Schedule schedule = small_schedule();
  std::get<CopyWork>(op_named(schedule, "upload forward 2").work).threads = 4;
  expect_fault(schedule, FaultKind::malformed,
               {title(schedule, "upload forward 2") + " copies with 4 threads on lane", "only host lanes have them"});
}

// The head's input is written behind the head: it finds that of the step before.
TEST(Checker, TellsWhatIsLeftOverFromTheStepBefore) {
  Schedule schedule = small_schedule();
  Op late = op_named(schedule, "forward 2 #0");
  const Access output = late.writes[0];
  ASSERT_EQ(output.value, (Value{TensorKind::boundary, 3, 0, 0}));
  op_named(schedule, "forward 2 #0").writes[0].value = {TensorKind::workspace};
  late.name = "late";
  late.id = static_cast<int>(schedule.ops.size());
  schedule.ops.push_back(late);
  derive_edges(schedule);
  op_named(schedule, "forward 2 #0").writes.erase(op_named(schedule, "forward 2 #0").writes.begin());
  const std::string text = all_texts(check_schedule(schedule));
  EXPECT_NE(text.find(title(schedule, "loss #0") + " reads boundary/3@0#0"), std::string::npos) << text;
  EXPECT_NE(text.find("finds boundary/3@-1#0"), std::string::npos) << text;
  EXPECT_NE(text.find("left by " + title(schedule, "late") + ": it is left over from the step before"),
            std::string::npos)
      << text;
}

TEST(Checker, FindsWhatWasNeverWritten) {
  Schedule schedule = small_schedule();
  schedule.initial.erase(schedule.initial.begin());  // hi of layer 0
  const std::vector<Fault> faults = check_schedule(schedule);
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults[0].second_op, op_named(schedule, "upload forward 0").id);
  EXPECT_NE(faults[0].text.find("nothing was put there before"), std::string::npos) << faults[0].text;
}

// An edge to the next step that lost its distance: adam 0 would have to end before the upload that feeds it.
TEST(Checker, FindsACycleAndNamesTheCure) {
  Schedule schedule = small_schedule();
  const int adam = op_named(schedule, "adam 0").id, upload = op_named(schedule, "upload forward 0").id;
  schedule.edges[static_cast<std::size_t>(edge_between(schedule, adam, upload, 1))].distance = 0;
  expect_fault(
      schedule, FaultKind::cycle,
      {title(schedule, "upload forward 0") + " -> ",
       " -> " + title(schedule, "adam 0") + " -> " + title(schedule, "upload forward 0"),
       fmt::format("the edge from op {} to op {} goes backwards in the order of ids: with distance 1 it would be legal",
                   adam, upload)});
}

TEST(Checker, RefusesBackwardEdgesWithoutACycle) {
  Schedule schedule = small_schedule();
  const int report = op_named(schedule, "report").id, last = report - 1;
  std::erase_if(schedule.edges,
                [&](const Edge& edge) { return edge.from == last || edge.to == last || edge.to == report; });
  schedule.edges.push_back({report, op_named(schedule, "adam 3").id, 0});
  bool found = false;
  for (const Fault& fault : check_schedule(schedule))
    found = found || (fault.kind == FaultKind::malformed &&
                      fault.text.find("ids must be one topological order") != std::string::npos);
  EXPECT_TRUE(found);
}

// The launch thread stands in a wait for an op that it would launch only afterwards.
TEST(Checker, FindsAWaitForALaterLaunch) {
  Schedule schedule = small_schedule();
  schedule.lanes.push_back({"launch", LaneKind::launch, 0});
  const int forward = op_named(schedule, "forward 0 #1").id;
  Op wait;
  wait.name = "wait";
  wait.lane = static_cast<int>(schedule.lanes.size()) - 1;
  wait.work = WaitWork{forward + 1, 0};  // ids behind the wait move up by one: forward 0 #1 itself
  schedule.ops.insert(schedule.ops.begin() + forward, wait);
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) schedule.ops[i].id = static_cast<int>(i);
  for (Edge& edge : schedule.edges) {
    edge.from += edge.from >= forward;
    edge.to += edge.to >= forward;
  }
  expect_fault(schedule, FaultKind::cycle,
               {fmt::format("'wait' (op {}) -> 'forward 0 #1' (op {}) -> 'wait'", forward, forward + 1),
                "with distance 1 it would be legal"});
  std::get<WaitWork>(schedule.ops[static_cast<std::size_t>(forward)].work) = {forward + 1, 1};
  EXPECT_EQ(all_texts(check_schedule(schedule)), "");
}

// A wait orders all GPU ops behind it: the edge that it replaces is not missed.
TEST(Checker, CountsTheLaunchRuleAsOrder) {
  Schedule schedule = small_schedule();
  const int forward = op_named(schedule, "forward 0 #2").id, upload = op_named(schedule, "upload forward 2").id;
  schedule.edges.erase(schedule.edges.begin() + edge_between(schedule, forward, upload, 0));
  schedule.lanes.push_back({"launch", LaneKind::launch, 0});
  Op wait;
  wait.name = "wait";
  wait.lane = static_cast<int>(schedule.lanes.size()) - 1;
  wait.work = WaitWork{forward, 0};
  schedule.ops.insert(schedule.ops.begin() + upload, wait);
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) schedule.ops[i].id = static_cast<int>(i);
  for (Edge& edge : schedule.edges) {
    edge.from += edge.from >= upload;
    edge.to += edge.to >= upload;
  }
  EXPECT_EQ(all_texts(check_schedule(schedule)), "");
}

TEST(Checker, FindsAByteOverCapacity) {
  Schedule schedule = small_schedule();
  const std::int64_t needed = schedule.tiers[0].capacity_bytes;
  schedule.tiers[0].capacity_bytes = needed - 1;
  expect_fault(
      schedule, FaultKind::over_capacity,
      {fmt::format("hbm holds {} bytes", needed - 1), fmt::format("ends at byte {}: 1 bytes too many", needed)});
  EXPECT_THROW(require_valid(schedule), DoesNotFit);
  schedule.edges.clear();
  EXPECT_THROW(require_valid(schedule), InputError);
}

TEST(Checker, FindsDanglingIndices) {
  const auto expect = [](auto change, const std::string& part) {
    Schedule schedule = small_schedule();
    change(schedule);
    const std::vector<Fault> faults = check_schedule(schedule);
    ASSERT_FALSE(faults.empty());
    EXPECT_EQ(faults[0].kind, FaultKind::malformed);
    EXPECT_NE(faults[0].text.find(part), std::string::npos) << part << "\nis not in\n" << faults[0].text;
  };
  expect([](Schedule& s) { s.ops[3].reads[0].buffer = 999; },
         "'forward 0 #0' (op 3) reads[0]: buffer 999, but there are");
  expect([](Schedule& s) { s.ops[3].lane = 5; }, "'forward 0 #0' (op 3) runs on lane 5, but there are 5 lanes");
  expect([](Schedule& s) { s.ops[3].id = 4; }, "stands at place 3");
  expect([](Schedule& s) { s.edges[0].to = 9999; }, "edges[0] leads from op");
  expect([](Schedule& s) { s.edges[0].distance = 2; }, "has distance 2: expected 0 or 1");
  expect([](Schedule& s) { s.buffers[2].tier = 2; }, "lies in tier 2, but there are 2 tiers");
  expect([](Schedule& s) { s.ops[3].reads[0].value.layer = 4; }, "there is no value tokens/4@0");
  expect([](Schedule& s) { s.ops[3].reads[0].bytes += 1; },
         "409 bytes at offset 0 of buffer 'tokens', which has 408 bytes");
  expect([](Schedule& s) { s.ops[3].reads[0].offset_bytes = INT64_MAX; }, "bytes at offset 9223372036854775807");
  expect([](Schedule& s) { s.ops[3].work = WaitWork{0, 0}; }, "waits belong to the launch lane");
  expect(
      [](Schedule& s) {
        s.model.heads = 3;
        s.model.kv_heads = 2;
      },
      "num_key_value_heads");
  expect(
      [](Schedule& s) {
        s.ops.clear();
        s.edges.clear();
      },
      "the schedule has no ops");
}

TEST(Checker, KnowsWhichLaneDoesWhat) {
  Schedule schedule = small_schedule();
  op_named(schedule, "upload forward 1").lane = 2;
  derive_edges(schedule);
  expect_fault(schedule, FaultKind::malformed,
               {"copies from dram (device 0) to hbm (device 0) on lane 'd2h' (copy_d2h, device 0)"});
  schedule = small_schedule();
  op_named(schedule, "adam 1").lane = 0;
  derive_edges(schedule);
  const std::string text = all_texts(check_schedule(schedule));
  EXPECT_NE(text.find("which cannot reach bytes [0, "), std::string::npos) << text;
}

TEST(Checker, KnowsTheOperandsOfEachPass) {
  const auto expect = [](auto change, const std::string& part) {
    Schedule schedule = small_schedule();
    change(schedule);
    derive_edges(schedule);
    const std::string text = all_texts(check_schedule(schedule));
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  };
  expect([](Schedule& s) { op_named(s, "forward 1 #0").reads.erase(op_named(s, "forward 1 #0").reads.begin()); },
         "does not read weights/1@0");
  expect([](Schedule& s) { op_named(s, "forward 1 #0").writes.pop_back(); }, "does not write a workspace of ");
  expect([](Schedule& s) { op_named(s, "forward 1 #0").reads.push_back(op_named(s, "forward 0 #0").reads[0]); },
         "reads tokens@0, for which it has no use");
  expect([](Schedule& s) { op_named(s, "forward 1 #0").reads[1].bytes -= 2; },
         "reads boundary/1@0#0 as 4094 bytes (bytes [0, 4094) of buffer 'boundary 1 #0' (hbm)), but it has 4096");
  expect([](Schedule& s) { std::get<TemplateWork>(op_named(s, "backward 1 #0").work).keep = Keep::input; },
         "keeps input, but");
  expect([](Schedule& s) { std::get<TemplateWork>(op_named(s, "backward 1 #0").work).pass = Pass::loss; },
         "runs pass loss");
  expect([](Schedule& s) { std::get<OptimizerWork>(op_named(s, "adam 0").work).elements = 8191; },
         "works on 8191 elements, but layer 0 has 8192");
  expect([](Schedule& s) { std::get<CopyWork>(op_named(s, "upload forward 0").work).bursts[0].count = 2; },
         "its bursts do not sum to that");
  expect([](Schedule& s) { op_named(s, "upload forward 0").writes[0].value.layer = 1; }, "a copy changes no label");
}

// Equal or nested entries would be loaded one over the other: a million of them took 40 s.
TEST(Checker, SaysOnceWhatLiesThereAtTheBeginning) {
  const auto expect = [](auto change, const std::string& part) {
    Schedule schedule = small_schedule();
    change(schedule.initial);
    const std::vector<Fault> faults = check_schedule(schedule);
    ASSERT_EQ(faults.size(), 1u) << all_texts(faults);
    EXPECT_EQ(faults[0].kind, FaultKind::malformed);
    EXPECT_NE(faults[0].text.find(part), std::string::npos) << faults[0].text;
  };
  using Entries = std::vector<Access>;
  expect([](Entries& initial) { initial.push_back(initial[1]); },
         "initial[16] puts low_bits/0@0 into bytes [0, 16384) of buffer 'lo 0' (dram), where initial[1] puts "
         "low_bits/0@0: what lies there at the beginning is said once");
  expect(
      [](Entries& initial) {
        initial.push_back({initial[1].buffer, 0, 8192, initial[1].value});
      },
      "initial[16] puts");
  expect(
      [](Entries& initial) {
        initial.insert(initial.begin(), {initial[1].buffer, 8192, 8192, initial[1].value});
      },
      "initial[0] puts low_bits/0@0 into bytes [8192, 16384) of buffer 'lo 0' (dram), where initial[2] puts");
  // Beside one another they may lie.
  Schedule schedule = small_schedule();
  EXPECT_EQ(all_texts(check_schedule(schedule)), "");
}

TEST(Checker, RefusesOverlapWithinAnOp) {
  Schedule schedule = small_schedule();
  Op& forward = op_named(schedule, "forward 1 #0");
  for (Access& write : forward.writes)
    if (write.value.tensor == TensorKind::workspace)
      write = {forward.reads[0].buffer, 0, forward.reads[0].bytes, write.value};
  derive_edges(schedule);
  const std::string text = all_texts(check_schedule(schedule));
  EXPECT_NE(text.find("'forward 1 #0' (op 7) writes workspace@0 over bytes that it reads"), std::string::npos) << text;
}

TEST(Checker, LimitsTheNumberOfFaults) {
  Schedule schedule = small_schedule();
  schedule.edges.clear();
  EXPECT_EQ(check_schedule(schedule, 3).size(), 3u);
  EXPECT_GT(check_schedule(schedule, 1000).size(), 20u);
}

}  // namespace
}  // namespace penstock

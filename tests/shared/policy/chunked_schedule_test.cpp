// Schedules of sequences that are cut: that they are sound whatever the policy, and what the proof wants of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shared/ir/checker.h"
#include "shared/ir/memory.h"
#include "shared/ir/schedule_json.h"
#include "shared/policy/evaluation.h"
#include "tests/shared/error_text.h"
#include "tests/shared/policy/small_models.h"

namespace penstock {
namespace {

/// Four sequences of 32 tokens in chunks of so many.
PolicyInput chunked_input(const Model& model, const std::string& preset, std::int64_t chunk_tokens) {
  PolicyInput in = small::input(model, preset);
  in.sequences = 4;
  in.micro_batch = 1;
  in.chunk_tokens = chunk_tokens;
  return in;
}

std::string faults(const Schedule& schedule) {
  std::string all;
  for (const Fault& fault : check_schedule(schedule)) all += fault.text + "\n";
  return all;
}

bool is_of_chunks(const Access& access) {
  return access.value.tensor == TensorKind::kv || access.value.tensor == TensorKind::kv_gradient;
}

int count(const std::vector<Access>& accesses, TensorKind tensor) {
  return static_cast<int>(
      std::count_if(accesses.begin(), accesses.end(), [&](const Access& a) { return a.value.tensor == tensor; }));
}

const std::vector<std::function<void(PolicyParameters&)>>& variants() {
  static const std::vector<std::function<void(PolicyParameters&)>> all{
      [](PolicyParameters&) {},
      [](PolicyParameters& p) { p.group = 1; },
      [](PolicyParameters& p) { p.group = 1, p.first_group = 2; },
      [](PolicyParameters& p) { p.keep = Keep::input_context, p.activations = TierKind::dram; },
      [](PolicyParameters& p) { p.keep = Keep::everything, p.activations = TierKind::dram, p.group = 2; },
      [](PolicyParameters& p) { p.group = 2, p.checkpoint_every = 3, p.activations = TierKind::dram; },
      [](PolicyParameters& p) { p.group = 1, p.activations = TierKind::nvme, p.activation_slots = 1; },
      [](PolicyParameters& p) {
        p.first_layers = 2, p.first_keep = Keep::input_attention, p.first_activations = TierKind::dram;
      },
      [](PolicyParameters& p) {
        p.group = 2;
        p.keep_layers = {{1, 3, 0, Keep::input_context, TierKind::dram}, {4, -1, 0, Keep::input, TierKind::hbm}};
      },
      [](PolicyParameters& p) { p.group = 1, p.gradient_sums = TierKind::dram; },
  };
  return all;
}

TEST(ChunkedSchedules, OfEveryPresetAreSoundWhereverTheCutsAre) {
  for (const PresetInfo& preset : presets())
    for (const std::int64_t chunk : {16, 13, 31, 1}) {
      const PolicyInput in = chunked_input(small::qwen2_tied(), preset.name, chunk);
      EXPECT_EQ(faults(make_schedule(in)), "") << preset.name << ", chunks of " << chunk;
    }
  for (const std::int64_t chunk : {16, 13})
    EXPECT_EQ(faults(make_evaluation(chunked_input(small::qwen2_tied(), "penstock", chunk))), "") << chunk;
}

TEST(ChunkedSchedules, OfEveryVariantAreSound) {
  for (std::size_t i = 0; i < variants().size(); ++i) {
    PolicyInput in = chunked_input(small::llama(), "penstock", 13);
    variants()[i](in.parameters);
    EXPECT_EQ(faults(make_schedule(in)), "") << "variant " << i;
    EXPECT_EQ(arena_bytes(in).hbm,
              [&] {
                std::int64_t end = 0;
                const Schedule schedule = make_schedule(in);
                for (const Buffer& buffer : schedule.buffers)
                  if (schedule.tiers[static_cast<std::size_t>(buffer.tier)].kind == TierKind::hbm)
                    end = std::max(end, buffer.offset_bytes + buffer.bytes);
                return end;
              }())
        << "variant " << i;
  }
}

TEST(ChunkedSchedules, OfFrozenLayersAreSound) {
  for (const auto& names : small::frozen_sets(small::llama())) {
    PolicyInput in = chunked_input(small::frozen(small::llama(), names), "penstock", 13);
    in.parameters.activations = TierKind::dram;
    EXPECT_EQ(faults(make_schedule(in)), "") << names.front();
  }
}

TEST(ChunkedSchedules, OfPackedRowsAreSound) {
  PolicyInput in = chunked_input(small::qwen3(), "penstock", 13);
  in.rows = BatchKind::packed;
  EXPECT_EQ(faults(make_schedule(in)), "");
}

/// Three chunks of 13, 13 and 6 tokens: the third attends to all three, and adds to the gradients of all three.
TEST(ChunkedSchedules, HandAttentionAllChunksUpToItsOwn) {
  const Schedule schedule = make_schedule(chunked_input(small::llama(), "penstock", 13));
  ASSERT_EQ(schedule.micro_batches, 12);
  EXPECT_EQ(schedule.tokens_per_step(), 4 * 32);
  for (const Op& op : schedule.ops) {
    const auto* work = std::get_if<TemplateWork>(&op.work);
    if (work == nullptr || work->kind != LayerKind::decoder) continue;
    const int chunk = op.micro_batch % 3;
    const bool forward = work->pass == Pass::forward, backward = work->pass == Pass::backward;
    EXPECT_EQ(count(op.reads, TensorKind::kv), chunk + (forward ? 0 : 1)) << op.name;
    EXPECT_EQ(count(op.writes, TensorKind::kv), forward ? 1 : 0) << op.name;
    EXPECT_EQ(count(op.reads, TensorKind::kv_gradient), backward && chunk < 2 ? chunk + 1 : 0) << op.name;
    EXPECT_EQ(count(op.writes, TensorKind::kv_gradient), backward ? chunk + 1 : 0) << op.name;
    for (const Access& access : op.reads)
      EXPECT_TRUE(access.value.tensor != TensorKind::boundary || access.bytes == (chunk == 2 ? 6 : 13) * 64 * 2)
          << op.name;
  }
}

TEST(ChunkedSchedules, AddChunksOfASequenceFromTheLastToTheFirst) {
  const Schedule schedule = make_schedule(chunked_input(small::llama(), "penstock", 13));
  const std::vector<int> turns{2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9};
  for (int layer = 0; layer <= 6; ++layer) {
    std::vector<int> order;
    for (const Op& op : schedule.ops)
      if (const auto* work = std::get_if<TemplateWork>(&op.work);
          work != nullptr && op.layer == layer && contributes(work->pass))
        order.push_back(op.micro_batch);
    EXPECT_EQ(order, turns) << "layer " << layer;
  }
}

TEST(ChunkedSchedules, LackNoneOfTheirKeys) {
  const Schedule sound = make_schedule(chunked_input(small::llama(), "resident", 16));
  for (std::size_t i = 0; i < sound.ops.size(); ++i)
    for (auto list : {&Op::reads, &Op::writes})
      for (std::size_t access = 0; access < (sound.ops[i].*list).size(); ++access) {
        if (!is_of_chunks((sound.ops[i].*list)[access])) continue;
        Schedule schedule = sound;
        auto& accesses = schedule.ops[i].*list;
        accesses.erase(accesses.begin() + static_cast<long>(access));
        EXPECT_NE(faults(schedule), "") << sound.ops[i].name << " without access " << access;
      }
}

/// Swaps two ops of the compute lane, ids and all.
Schedule swapped(Schedule schedule, const std::string& first, const std::string& second) {
  const auto find = [&](const std::string& name) {
    return std::find_if(schedule.ops.begin(), schedule.ops.end(), [&](const Op& op) { return op.name == name; });
  };
  const auto a = find(first), b = find(second);
  std::swap(*a, *b);
  std::swap(a->id, b->id);
  return schedule;
}

TEST(ChunkedSchedules, AreProvedToAddInThatOrder) {
  const Schedule sound = make_schedule(chunked_input(small::llama(), "resident", 16));
  // Chunks 0 and 1 of the first sequence.
  const std::string of_decoder = faults(swapped(sound, "backward 5 #1", "backward 5 #0"));
  EXPECT_MENTIONS(of_decoder, "chunks add from the last one on");
  EXPECT_MENTIONS(of_decoder, "the chunks of one from its last to its first");
  EXPECT_MENTIONS(faults(swapped(sound, "loss 6 #1", "loss 6 #0")), "the chunks of one from its last to its first");
}

TEST(ChunkedSchedules, KeepChunksOneBehindTheOther) {
  Schedule schedule = make_schedule(chunked_input(small::llama(), "resident", 16));
  // The same bytes in another order: nothing but a kernel would notice.
  for (Op& op : schedule.ops)
    for (auto list : {&Op::reads, &Op::writes})
      for (Access& access : op.*list)
        if (access.value.tensor == TensorKind::kv) access.offset_bytes = access.bytes - access.offset_bytes;
  EXPECT_MENTIONS(faults(schedule), "chunks of one sequence lie one behind the other");
}

TEST(ChunkedSchedules, AreReadAsTheyWereWritten) {
  const Schedule schedule = make_schedule(chunked_input(small::llama(), "megatrain", 13));
  const std::string text = schedule_text(schedule);
  EXPECT_NE(text.find("\"penstock-schedule/2\""), std::string::npos);
  EXPECT_NE(text.find("\"sequence_length\": 32, \"rows\": \"windows\", \"chunk_tokens\": 13}"), std::string::npos);
  const Schedule again = parse_schedule(text, "x");
  EXPECT_EQ(again.micro_batch.chunk_tokens, 13);
  EXPECT_EQ(again.ops, schedule.ops);
  EXPECT_EQ(schedule_hash(again), schedule_hash(schedule));
  EXPECT_NE(schedule_hash(make_schedule(chunked_input(small::llama(), "megatrain", 12))), schedule_hash(schedule));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return error_text([&] { parse_schedule(other, "x"); });
  };
  EXPECT_MENTIONS(changed("\"chunk_tokens\": 13", "\"chunk_tokens\": 32"), "longer than chunk_tokens = 32");
  EXPECT_MENTIONS(changed("\"sequence_length\": 32,", "\"sequence_length\": 2147483647,"),
                  "expected at most 256 chunks");
  EXPECT_MENTIONS(changed("\"micro_batches\": 12", "\"micro_batches\": 11"), "a multiple of the 3 chunks");
}

TEST(ChunkedSchedules, AreThoseOfWholeSequencesWhereNothingIsCut) {
  for (const std::int64_t chunk : {32, 1000}) {
    const PolicyInput in = chunked_input(small::llama(), "penstock", chunk);
    EXPECT_EQ(schedule_hash(make_schedule(in)),
              schedule_hash(make_schedule(chunked_input(small::llama(), "penstock", 0))));
  }
}

/// What HBM's arena holds of one sequence of so many tokens in chunks of 16.
std::map<std::string, std::int64_t> hbm_of(const std::function<void(PolicyParameters&)>& set, std::int64_t tokens) {
  PolicyInput in = chunked_input(small::llama(), "penstock", 16);
  in.sequences = 1;
  in.sequence_length = tokens;
  set(in.parameters);
  for (const TierMemory& tier : schedule_memory(make_schedule(in)))
    if (tier.tier.kind == TierKind::hbm) return {tier.contents.begin(), tier.contents.end()};
  return {};
}

/// Boundaries of a group (64 wide, bf16), keys and values of two sequences of a layer and their gradient (32 columns of
/// each, fp32), or of all six layers; and the step's tokens. Everything else is of one chunk.
TEST(ChunkedSchedules, TakeOfTheGpuWithTheLengthWhatTheReportNames) {
  const Model model = small::llama();
  const std::int64_t kv = 2 * kv_elements(model, 1), boundary = boundary_bytes(model, {1, 1}),
                     decoders = model.layer_count() - 2;
  struct Case {
    const char* name;
    std::function<void(PolicyParameters&)> set;
    std::int64_t activations, keys_and_values;  // bytes per token
  };
  const Case cases[] = {
      {"in DRAM", [](PolicyParameters& p) { p.keep = Keep::input, p.activations = TierKind::dram; }, boundary,
       2 * kv + 2 * kv},
      {"kept in DRAM", [](PolicyParameters& p) { p.keep = Keep::everything, p.activations = TierKind::dram; }, boundary,
       2 * kv + 2 * kv},
      {"in HBM", [](PolicyParameters& p) { p.keep = Keep::input, p.activations = TierKind::hbm; },
       decoders * boundary + boundary, decoders * kv + 2 * kv},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const auto shorter = hbm_of(each.set, 64), longer = hbm_of(each.set, 64 + 160);
    for (const auto& [name, bytes] : longer) {
      const std::int64_t more = bytes - (shorter.contains(name) ? shorter.at(name) : 0);
      if (name == "activations")
        EXPECT_EQ(more, 160 * each.activations);
      else if (name == "keys and values")
        EXPECT_EQ(more, 160 * each.keys_and_values);
      else if (name == "step inputs")
        EXPECT_LE(more, 160 * 16);
      else
        EXPECT_LE(std::abs(more), 1024) << name;  // padding
    }
  }
}

TEST(ChunkedSchedules, RefuseWhatCannotBe) {
  PolicyInput in = chunked_input(small::llama(), "penstock", 13);
  in.micro_batch = 2;
  EXPECT_MENTIONS(error_text([&] { make_schedule(in); }), "set micro_batch = 1 (found 2)");
  in = chunked_input(small::llama(), "penstock", 13);
  in.sequence_length = 10000;
  EXPECT_MENTIONS(error_text([&] { make_schedule(in); }), "expected at most 256, so at least 40 tokens each");
  in.chunk_tokens = -1;
  EXPECT_MENTIONS(error_text([&] { make_schedule(in); }), "chunk_tokens = -1 is out of range");
}

TEST(ChunkShapes, ShareOutTheSquaresOfDocuments) {
  for (const double squares : {1e6, 1e5, 1e3, 5.0}) {
    BatchShape row{1, 1000, BatchKind::packed, squares};
    row.chunk_tokens = 300;
    double sum = 0, before = 0;
    for (int chunk = 0; chunk < chunk_count(row); ++chunk) {
      const BatchShape shape = chunk_of(row, chunk);
      EXPECT_GE(shape.squared_lengths * 300 / static_cast<double>(shape.sequence_length), before * 0.999);
      before = shape.squared_lengths;
      sum += shape.squared_lengths;
    }
    EXPECT_NEAR(sum, squares, 1e-6 * squares);
  }
}

}  // namespace
}  // namespace penstock

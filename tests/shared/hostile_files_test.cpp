// Files that are made to take all memory. Whatever stands in them, reading takes a small multiple of the file's size,
// and of a legal one little more than what is kept.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "shared/compare/recording.h"
#include "shared/files.h"
#include "shared/ir/checker.h"
#include "shared/ir/schedule_json.h"
#include "shared/json_reader.h"
#include "shared/machine/profile.h"
#include "shared/policy/parameters.h"
#include "shared/timeline/timeline.h"
#include "tests/allocated_bytes.h"
#include "tests/shared/error_text.h"
#include "tests/shared/policy/small_models.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

constexpr std::size_t kSize = 8 << 20;  // of each file
constexpr double kMost = 4;             // times its size

std::string repeated(const std::string& piece, std::size_t bytes = kSize) {
  std::string text;
  text.reserve(bytes + piece.size());
  while (text.size() < bytes) text += piece;
  return text;
}

std::string around(std::string_view head, const std::string& middle, std::string_view tail) {
  std::string text(head);
  text += middle;
  return text += tail;
}

/// The small schedule with `text` in the place of what `key` holds.
std::string schedule_with(const std::string& key, const std::string& text) {
  std::string all = read_text_file(source_folder() / "tests/fuzz/seeds/schedule/small.json", 1 << 20);
  const std::string head = "\"" + key + "\": [";
  const auto begin = all.find(head) + head.size();
  return all.insert(begin, text);
}

struct Hostile {
  const char* name;
  std::function<std::string()> text;
  const char* says;
};

std::string numbered_keys(std::size_t bytes = kSize) {
  std::string text = "{";
  for (std::size_t i = 0; text.size() < bytes; ++i) text += "\"" + std::to_string(i) + "\":0,";
  return text + "\"end\":0}";
}

const Hostile kHostile[] = {
    {"NestedLists", [] { return repeated("["); }, "nests more than 100 deep"},
    {"NestedObjects", [] { return repeated("{\"a\":"); }, "nests more than 100 deep"},
    {"OneText", [] { return around("{\"format\": \"", repeated("a"), "\"}"); }, "one text, one number or blank"},
    {"OneKey", [] { return around("{\"", repeated("a"), "\": 1}"); }, "one text, one number or blank"},
    {"OneNumber", [] { return around("{\"format\": ", repeated("1"), "}"); }, "one text, one number or blank"},
    {"Blanks", [] { return around("{", repeated(" "), "}"); }, "one text, one number or blank"},
    {"EmptyLists", [] { return around("{\"a\": [", repeated("[],"), "0]}"); }, "holds more than 20000 values"},
    {"EmptyObjects", [] { return around("{\"a\": [", repeated("{},"), "0]}"); }, "holds more than 20000 values"},
    {"Numbers", [] { return around("{\"tiers\": [", repeated("1,"), "0]}"); }, "holds more than 20000 values"},
    {"Keys", [] { return numbered_keys(); }, "holds more than 20000 values"},
    {"KeysOfAnOp", [] { return schedule_with("ops", numbered_keys() + ","); }, "x.json.ops[0]"},
    {"NumbersInAnOp", [] { return schedule_with("ops", around("[", repeated("1,"), "0],")); },
     "x.json.ops[0]: holds more than 1000000 values"},
    {"ListsInAnOp", [] { return schedule_with("ops", around("{\"reads\": [", repeated("[],"), "0]},")); },
     "x.json.ops[0]: holds more than 1000000 values"},
    {"DeepInAnOp", [] { return schedule_with("ops", repeated("[")); }, "x.json.ops[0]: nests more than 100 deep"},
    {"TextsInAnEdge",
     [] {
       return schedule_with("edges", around("[", repeated("\"" + std::string(1 << 20, 'a') + "\",", 3 * kSize), "0],"));
     },
     "x.json.edges[0]: has texts of more than 16777216 bytes"},
    {"EmptyListsForOps", [] { return schedule_with("ops", repeated("[],")); }, "x.json.ops[0]: expected an object"},
    {"NumbersForEdges", [] { return schedule_with("edges", repeated("1,")); },
     "x.json.edges[0]: expected [from, to, distance]"},
    {"Edges", [] { return schedule_with("edges", repeated("[0,1,0],")); }, ""},
    {"ManyInitial", [] { return schedule_with("initial", repeated("[0,0,1,\"tokens@0\"],", 3 * kSize)); },
     "x.json.initial: more than 1000000 entries"},
    {"SmallestBuffers",
     [] { return schedule_with("buffers", repeated("{\"name\":\"\",\"tier\":9,\"offset_bytes\":0,\"bytes\":0},")); },
     "tier: 9, but there are 2 tiers"},
};

class HostileSchedule : public testing::TestWithParam<Hostile> {};

TEST_P(HostileSchedule, TakesLittleMoreThanItsSize) {
  const TemporaryFolder folder;
  std::size_t size = 0;
  {
    const std::string text = GetParam().text();
    size = text.size();
    folder.write("x.json", text);
  }
  const AllocatedBytes bytes;
  const std::string said = error_text([&] { read_schedule(folder.path() / "x.json"); });
  EXPECT_LE(static_cast<double>(bytes.peak()), kMost * static_cast<double>(size));
  const std::string says = GetParam().says;
  EXPECT_NE(said.find(says.substr(0, 6) == "x.json" ? says.substr(6) : says), std::string::npos) << said;
  EXPECT_EQ(said.empty(), says.empty()) << said;
}

INSTANTIATE_TEST_SUITE_P(Files, HostileSchedule, testing::ValuesIn(kHostile),
                         [](const auto& test) { return test.param.name; });

/// The smallest op that a file can have, in its place.
std::string smallest_ops(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "{\"id\":" + std::to_string(i) + ",\"name\":\"\",\"lane\":0,\"phase\":\"loss\",\"work\":\"input\"}" +
            (i + 1 < count ? "," : "");
  return text;
}

TEST(HostileSchedule, SmallestOpsAreReadOnce) {
  const TemporaryFolder folder;
  std::string all = read_text_file(source_folder() / "tests/fuzz/seeds/schedule/small.json", 1 << 20);
  const auto begin = all.find("\"ops\": [") + 8, end = all.find("],\n\"edges\"");
  all.replace(begin, end - begin, smallest_ops(150'000));
  all.replace(all.find("\"edges\": [") + 10, std::string::npos, "]}");
  folder.write("x.json", all);
  const AllocatedBytes bytes;
  EXPECT_EQ(read_schedule(folder.path() / "x.json").ops.size(), 150'000u);
  EXPECT_LE(static_cast<double>(bytes.peak()), kMost * static_cast<double>(all.size()));
}

PolicyInput many_micro_batches(int sequences) {
  PolicyInput input;
  input.model = small::llama();
  input.sequence_length = 16;
  input.sequences = sequences;
  input.micro_batch = 1;
  input.hbm_bytes = input.dram_bytes = std::int64_t{1} << 50;
  input.host_threads = 2;
  input.parameters = preset_parameters("penstock");
  input.parameters.activations = TierKind::dram;
  return input;
}

struct Cost {
  double read = 0, proved = 0, written = 0;  // bytes at most, for each byte of the file
};

Cost cost_of(int sequences) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.json";
  Cost cost;
  const Schedule schedule = make_schedule(many_micro_batches(sequences));
  {
    const AllocatedBytes bytes;
    write_schedule(schedule, path);
    cost.written = static_cast<double>(bytes.peak());
  }
  const AllocatedBytes bytes;
  const Schedule read = read_schedule(path);
  cost.read = static_cast<double>(bytes.peak());
  EXPECT_TRUE(check_schedule(read).empty());
  cost.proved = static_cast<double>(bytes.peak());
  EXPECT_EQ(schedule_hash(read), schedule_hash(schedule));
  const auto size = static_cast<double>(std::filesystem::file_size(path));
  return {cost.read / size, cost.proved / size, cost.written / size};
}

// What a legal schedule of a gigabyte takes, on one of a few megabytes, of which windows and pieces are a larger part.
TEST(LegalSchedule, TakesAboutItsSizeHoweverLarge) {
  const Cost small = cost_of(500), large = cost_of(2000);
  EXPECT_LE(large.read, 1.6);
  EXPECT_LE(large.proved, 2.0);
  EXPECT_LE(large.written, 0.5);
  EXPECT_LE(large.read, small.read * 1.1);
  EXPECT_LE(large.proved, small.proved * 1.1);
}

TEST(Timeline, TakesLittleMoreThanItsSize) {
  const TemporaryFolder folder;
  std::string text =
      "{\"format\": \"penstock-timeline/1\", \"source\": \"measured\", \"schedule_hash\": \"0\", \"scenario\": \"\", "
      "\"machine\": \"\", \"first_step\": 0, \"steps\": 1, \"warmup_steps\": 0, \"peaks\": [], \"losses\": [";
  text += repeated("0,", 1'000'000) + "0], \"ops\": [";
  constexpr int kOps = 500'000;
  for (int op = 0; op < kOps; ++op) text += "[0," + std::to_string(op) + ",0,0]" + (op + 1 < kOps ? "," : "]}");
  folder.write("x.json", text);
  const AllocatedBytes bytes;
  EXPECT_EQ(read_timeline(folder.path() / "x.json").ops.size(), static_cast<std::size_t>(kOps));
  EXPECT_LE(static_cast<double>(bytes.peak()), kMost * static_cast<double>(text.size()));
}

TEST(HostileTimeline, IsRefusedWhereItTurnsOut) {
  const TemporaryFolder folder;
  for (const auto& [text, says] :
       {std::pair{around("{\"ops\": [", repeated("[],"), "0]}"), ".ops[0]: expected [step, op"},
        std::pair{around("{\"peaks\": [", repeated("[],"), "0]}"), "holds more than 20000 values"},
        std::pair{around("{\"losses\": [", repeated("0,"), "0]}"), ".losses: more than 1000000 entries"}}) {
    folder.write("x.json", text);
    const AllocatedBytes bytes;
    const std::string said = error_text([&] { read_timeline(folder.path() / "x.json"); });
    EXPECT_NE(said.find(says), std::string::npos) << said;
    EXPECT_LE(static_cast<double>(bytes.peak()), kMost * static_cast<double>(text.size()));
  }
}

TEST(HostileRecording, IsRefusedWhereItTurnsOut) {
  const TemporaryFolder folder;
  for (const auto& [text, says] :
       {std::pair{around("{\"op_nanoseconds\": [", repeated("1,", 3 * kSize), "0]}"),
                  ".op_nanoseconds: more than 10000000 entries"},
        std::pair{around("{\"op_nanoseconds\": [", repeated("{},"), "0]}"), "expected whole nanoseconds"},
        std::pair{around("{\"overrides\": [", repeated("\"\","), "0]}"), "holds more than 20000 values"}}) {
    folder.write("x.json", text);
    const AllocatedBytes bytes;
    const std::string said = error_text([&] { read_recording(folder.path() / "x.json"); });
    EXPECT_NE(said.find(says), std::string::npos) << said;
    EXPECT_LE(static_cast<double>(bytes.peak()), kMost * static_cast<double>(text.size()));
  }
}

// Files that are read as trees are small by their limits; the tree has a limit of its own.
TEST(HostileTree, HoldsNoMoreThanTwoMillionValues) {
  for (const char* piece : {"[],", "{},", "0,", "\"\","}) {
    const std::string text = around("[", repeated(piece), "0]");
    const AllocatedBytes bytes;
    EXPECT_EQ(error_text([&] { parse_json(text, "x.json"); }),
              "x.json: holds more than 2000000 values; was another file meant?");
    EXPECT_LE(bytes.peak(), 256 << 20);
  }
}

}  // namespace
}  // namespace penstock

#include "shared/ir/schedule_json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>

#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/schedule_names.h"
#include "tests/shared/error_text.h"
#include "tests/shared/ir/small_schedule.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

bool same(const Schedule& a, const Schedule& b) {
  return a.policy == b.policy && a.model == b.model && a.micro_batch.sequences == b.micro_batch.sequences &&
         a.micro_batch.sequence_length == b.micro_batch.sequence_length && a.micro_batches == b.micro_batches &&
         a.library_bytes == b.library_bytes && a.numerics == b.numerics && a.tiers == b.tiers && a.lanes == b.lanes &&
         a.buffers == b.buffers && a.initial == b.initial && a.ops == b.ops && a.edges == b.edges;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("the text has no " + from);
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  return error_text([&] { parse_schedule(text, "x.json"); });
}

void expect_error(const std::string& from, const std::string& to, const std::string& message) {
  static const std::string text = schedule_text(small_schedule());
  const std::string found = error_of(replaced(text, from, to));
  EXPECT_NE(found.find(message), std::string::npos) << message << "\nis not in\n" << found;
}

TEST(ScheduleJson, ComesBackAsItWas) {
  for (const bool tied : {false, true})
    for (const bool sum_on_host : {false, true}) {
      SmallOptions options;
      options.tied = tied;
      options.sum_on_host = sum_on_host;
      const Schedule schedule = small_schedule(options);
      EXPECT_TRUE(same(parse_schedule(schedule_text(schedule), "x.json"), schedule));
    }
}

TEST(ScheduleJson, KeepsWindowsAndScalings) {
  const Schedule plain = small_schedule();
  EXPECT_EQ(schedule_text(plain).find("sliding_window"), std::string::npos);  // files and hashes stay as they were
  EXPECT_EQ(schedule_text(plain).find("rope_scaling"), std::string::npos);
  Schedule window = plain, longer = plain, scaled = plain;
  window.model.sliding_window = 4096;
  window.model.window_layers = {0};
  longer.model.sliding_window = 4097;
  longer.model.window_layers = {0};
  scaled.model.rope_scaling = RopeScaling::dynamic;
  scaled.model.rope_factor = 2;
  Schedule louder = scaled;
  louder.model.rope_scaling = RopeScaling::yarn;
  Schedule loudest = louder;
  loudest.model.rope_attention_factor = 1.25;
  loudest.model.rope_truncate = false;
  std::set<std::string> hashes{schedule_hash(plain)};
  for (const Schedule& schedule : {window, longer, scaled, louder, loudest}) {
    EXPECT_TRUE(same(parse_schedule(schedule_text(schedule), "x.json"), schedule));
    EXPECT_TRUE(hashes.insert(schedule_hash(schedule)).second);
  }
  const std::string text = schedule_text(scaled);
  EXPECT_NE(error_of(replaced(text, "\"dynamic\"", "\"none\"")).find("is said by leaving the key away"),
            std::string::npos);
  EXPECT_NE(error_of(replaced(text, "\"dynamic\"", "\"dynamo\"")).find("did you mean \"dynamic\"?"), std::string::npos);
  EXPECT_NE(
      error_of(replaced(schedule_text(window), "\"sliding_window\": 4096", "\"sliding_window\": 0")).find("from 1"),
      std::string::npos);
  EXPECT_NE(error_of(replaced(schedule_text(window), "\"window_layers\": [0]", "\"window_layers\": [99]"))
                .find("layers with a window: expected ascending ones"),
            std::string::npos);
}

/// Any content that the format can say, whether it makes sense or not.
class RandomSchedule {
 public:
  explicit RandomSchedule(unsigned seed) : random_(seed) {}

  Schedule make() {
    SmallOptions options;
    options.edges = false;
    Schedule s = small_schedule(options);
    s.policy = "q\"uo\\te\n\u00e9";
    s.model.rms_epsilon = 1e-6 + number(0, 1000) * 1e-9;
    s.model.rope_theta = 1.0 / 3.0 * number(4, 1000000);
    s.micro_batches = number(1, 9);
    s.library_bytes = number(0, 1 << 30);
    s.numerics.states = pick<StateFormat>(3);
    s.numerics.moments = pick<ElementType>(2);
    s.numerics.gradient_sum = pick<ElementType>(2);
    s.numerics.gradient_link = pick<ElementType>(2);
    s.numerics.sum_on_host = number(0, 1) == 1;
    s.numerics.clip = number(0, 1) == 1;
    s.numerics.chunking = {number(0, 99), number(0, 99)};
    s.tiers = {{TierKind::hbm, 0, 1}, {TierKind::nvme, 3, std::int64_t{1} << 60}};
    s.buffers = {{"a", 0, 5, std::int64_t{1} << 60}, {"b \"", 1, 0, 77}};
    micro_batches_ = s.micro_batches;
    s.initial = accesses();
    s.ops.clear();
    s.edges.clear();
    const int count = number(1, 30);
    for (int i = 0; i < count; ++i) s.ops.push_back(op(i, count));
    for (int i = number(0, 30); i > 0; --i)
      s.edges.push_back({number(0, count - 1), number(0, count - 1), number(0, 1)});
    return s;
  }

 private:
  int number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  template <typename Enum>
  Enum pick(int count) {
    return static_cast<Enum>(number(0, count - 1));
  }

  std::vector<Access> accesses() {
    std::vector<Access> list;
    for (int i = number(0, 4); i > 0; --i)
      list.push_back({number(0, 1),
                      number(0, 33),
                      number(0, 44),
                      {pick<TensorKind>(17), number(-1, 3), number(-1, 1), number(-1, micro_batches_ - 1)}});
    return list;
  }

  Work work(const Op& op, int ops) {
    switch (number(0, 9)) {
      case 0:
        return CopyWork{op.reads.empty() || op.reads[0].bytes == 0 ? std::vector<Burst>{}
                                                                   : std::vector<Burst>{{1, op.reads[0].bytes}},
                        number(1, 9)};
      case 1: return TemplateWork{pick<LayerKind>(3), pick<Pass>(4), pick<Keep>(3)};
      case 2: return OptimizerWork{number(0, 1 << 30), number(1, 99)};
      case 3: return AccumulateWork{number(0, 1 << 30), number(1, 99)};
      case 4: return FinishGradientWork{number(0, 1 << 30), number(1, 99)};
      case 5: return StepScalarsWork{};
      case 6: return InputWork{};
      case 7: return ReportWork{};
      case 8: return WaitWork{number(0, ops - 1), number(0, 1)};
      default: return HostPassWork{number(0, 1 << 30), number(1, 99)};
    }
  }

  Op op(int id, int ops) {
    Op op{id,
          "op \t" + std::to_string(id),
          number(0, 4),
          number(-1, 3),
          number(-1, micro_batches_ - 1),
          pick<Phase>(4),
          {},
          accesses(),
          accesses()};
    op.work = work(op, ops);
    return op;
  }

  std::mt19937 random_;
  int micro_batches_ = 1;
};

TEST(ScheduleJson, ComesBackWhateverItSays) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Schedule schedule = RandomSchedule(seed).make();
    const std::string text = schedule_text(schedule);
    ASSERT_TRUE(same(parse_schedule(text, "x.json"), schedule)) << text;
  }
}

TEST(ScheduleJson, HasOneOpPerLine) {
  const std::string text = schedule_text(small_schedule());
  EXPECT_NE(text.find("\n  {\"id\": 2, \"name\": \"upload forward 0\", \"lane\": 1, \"layer\": 0, \"phase\": "
                      "\"forward\", \"work\": \"copy\", "
                      "\"bursts\": [[16384, 1]], \"reads\": [[0, 0, 16384, \"weights/0@0\"]], \"writes\": [["),
            std::string::npos)
      << text;
}

// The file that docs/schedule.md walks through. Whoever changes the format or the hash must change the version.
TEST(ScheduleJson, KeepsItsFormat) {
  SmallOptions options;
  options.micro_batches = 2;
  options.decoder_layers = 1;
  const std::string recorded = read_text_file(source_folder() / "tests/fuzz/seeds/schedule/small.json", 1 << 20);
  EXPECT_EQ(schedule_text(small_schedule(options)), recorded);
  EXPECT_EQ(schedule_hash(parse_schedule(recorded, "small.json")), "569c6188440dd74e");
}

TEST(ScheduleJson, WritesAndReadsFiles) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "schedule.json";
  const Schedule schedule = small_schedule();
  write_schedule(schedule, path);
  EXPECT_TRUE(same(read_schedule(path), schedule));
  write_text_file(path, "{}");
  try {
    read_schedule(path);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()), path.string() + ".format: is missing; expected a text");
  }
  std::filesystem::remove(path);
  EXPECT_THROW(read_schedule(path), InputError);
}

TEST(ScheduleJson, RefusesOtherVersionsAndUnknownFields) {
  expect_error("penstock-schedule/1", "penstock-schedule/3",
               "x.json.format: this program reads \"penstock-schedule/1\" and \"penstock-schedule/2\", found "
               "\"penstock-schedule/3\"");
  expect_error("penstock-schedule/1", "penstock-schedule/2", "x.json.micro_batch.rows: is missing");
  expect_error("\"sequence_length\":", "\"rows\": \"packed\", \"sequence_length\":",
               "x.json.micro_batch.rows: is not a key that belongs here");
  expect_error("\"policy\":", "\"polcy\":", "x.json.policy: is missing");
  expect_error("\"policy\":", "\"extra\": 1, \"policy\":", "x.json.extra: is not a key that belongs here");
  expect_error("\"name\": \"forward 0 #0\"", "\"name\": \"forward 0 #0\", \"bursts\": []",
               "x.json.ops[3].bursts: is not a key that belongs here");
  expect_error("\"clip\": true", "\"clip\": true, \"cilp\": 1", "x.json.numerics.cilp: is not a key that belongs here");
}

TEST(ScheduleJson, RefusesDanglingIndices) {
  expect_error("[[0, 0, 16384, \"weights/0@0\"]]", "[[99, 0, 16384, \"weights/0@0\"]]",
               "x.json.ops[2].reads[0].buffer: 99, but there are ");
  expect_error("\"id\": 7,", "\"id\": 8,",
               "x.json.ops[7].id: 8, but ids count from 0 in the order of the list: 7 is right");
  expect_error("\"lane\": 1,", "\"lane\": 5,", "x.json.ops[1].lane: 5, but there are 5 lanes");
  expect_error("\"tier\": 0", "\"tier\": 2", ".tier: 2, but there are 2 tiers");
  expect_error("\"edges\": [\n  [", "\"edges\": [\n  [1000, 0, 0], [", "x.json.edges[0].from: 1000, but there are ");
  expect_error("\"edges\": [\n  [", "\"edges\": [\n  [0, 1, 2], [",
               "x.json.edges[0].distance: expected a whole number from 0 to 1, found 2");
  expect_error("weights/0@0", "weights/9@0", "x.json.initial[0].value: \"weights/9@0\", but the last layer is 3");
  expect_error("boundary/1@0#0", "boundary/1@0#3", "value: \"boundary/1@0#3\", but there are 3 micro-batches");
}

TEST(ScheduleJson, RefusesWrongTypesAndAbsurdNumbers) {
  expect_error("\"micro_batches\": 3", "\"micro_batches\": \"3\"",
               "x.json.micro_batches: expected a whole number from 1 to 1000000, found \"3\"");
  expect_error("\"micro_batches\": 3", "\"micro_batches\": 3.0", "found 3.0");
  expect_error("\"sequences\": 2", "\"sequences\": 2147483648",
               "x.json.micro_batch: expected at most 2147483648 tokens, found 2147483648 sequences of ");
  expect_error("\"sequences\": 2", "\"sequences\": 2147483649",
               "x.json.micro_batch.sequences: expected a whole number from 1 to 2147483648, found 2147483649");
  expect_error("\"bytes\": 16384", "\"bytes\": 1152921504606846977",
               ".bytes: expected a whole number from 0 to 1152921504606846976");
  expect_error("\"bytes\": 16384", "\"bytes\": -1", "expected a whole number from 0 to 1152921504606846976, found -1");
  expect_error("[0, 0, 16384, \"weights/0@0\"]", "[0, 0, 99999999999999999999999, \"weights/0@0\"]",
               "x.json.initial[0].bytes: expected a whole number");
  expect_error("[0, 0, 16384, \"weights/0@0\"]", "[0, 1, 16384, \"weights/0@0\"]",
               "x.json.initial[0].bytes: the range ends at byte 16385 of buffer 'hi 0', which has 16384");
  expect_error("[0, 0, 16384, \"weights/0@0\"]", "[0, 0, 16384]",
               "x.json.initial[0]: expected [buffer, offset_bytes, bytes, \"value\"], found [0,0,16384]");
  expect_error(
      "\"weights/0@0\"", "\"weight/0@0\"",
      "x.json.initial[0].value: expected a label such as \"weights/3@0\" or \"boundary/4@0#2\", found \"weight/0@0\"");
  expect_error("\"hidden\": 64", "\"hidden\": 0", "x.json.model: hidden_size");
  expect_error("\"work\": \"copy\"", "\"work\": \"move\"", "x.json.ops[1].work: expected one of copy, template,");
  expect_error("[[16384, 1]]", "[[16384, 2]]", "x.json.ops[2].bursts: they sum to 32768 bytes, but the op reads 16384");
  expect_error("[[16384, 1]]", "[[1152921504606846976, 1000000000]]",
               "x.json.ops[2].bursts[0].count: the bursts sum to more than 2^60 bytes");
  expect_error("[[16384, 1]]", "[[0, 1]]", "x.json.ops[2].bursts[0].bytes: expected a whole number from 1 to");
}

// What one list says of another is looked at when all is there.
TEST(ScheduleJson, TakesItsKeysInAnyOrder) {
  const Schedule schedule = small_schedule();
  std::string text = schedule_text(schedule);
  const auto move_to_front = [&](const std::string& key) {
    const auto begin = text.find("\"" + key + "\": ["), end = text.find("],\n\"", begin) + 3;
    ASSERT_NE(begin, std::string::npos);
    const std::string list = text.substr(begin, end - begin);
    text.erase(begin, end - begin);
    text.insert(2, list);
  };
  move_to_front("buffers");
  move_to_front("tiers");
  move_to_front("ops");
  move_to_front("initial");
  EXPECT_TRUE(same(parse_schedule(text, "x.json"), schedule));
  // Within an op too.
  text = replaced(text, "{\"id\": 2, \"name\": \"upload forward 0\", \"lane\": 1, ", "{\"lane\": 1, ");
  text = replaced(text, "\"bursts\": [[16384, 1]], \"reads\"",
                  "\"name\": \"upload forward 0\", \"bursts\": [[16384, 1]], \"id\": 2, \"reads\"");
  EXPECT_TRUE(same(parse_schedule(text, "x.json"), schedule));
}

TEST(ScheduleJson, RefusesAKeyThatStandsTwiceAndAListThatIsNone) {
  expect_error("\"policy\":", "\"policy\": \"a\", \"policy\":", "the key \"policy\" stands twice in one object");
  expect_error("\"initial\":", "\"ops\": [], \"initial\":", "the key \"ops\" stands twice in one object");
  expect_error("\"lane\": 1,", "\"lane\": 1, \"lane\": 1,",
               "x.json.ops[1]: the key \"lane\" stands twice in one object; leave one of the two");
  expect_error("\"tier\": 1,", "\"tier\": 1, \"tier\": 0,", "x.json.buffers[0]: the key \"tier\" stands twice");
  expect_error("\"initial\": [", "\"initial\": 7, \"more\": [", "x.json.initial: expected a list, found 7");
  expect_error("\"initial\": [", "\"first\": [", "x.json.initial: is missing; expected a list");
  expect_error("\"ops\": [", "\"ops\": [7, ", "x.json.ops[0]: expected an object, found 7");
  expect_error("\"work\": \"copy\"", "\"wrok\": \"copy\"", "did you mean work?");
}

// A file of another kind is called one, whatever its lists hold.
TEST(ScheduleJson, SaysFirstThatAFileIsOfAnotherKind) {
  EXPECT_EQ(error_of(R"({"format": "penstock-timeline/1", "ops": [[0, 0, 0, 1]]})"),
            "x.json.format: this program reads \"penstock-schedule/1\" and \"penstock-schedule/2\", found "
            "\"penstock-timeline/1\"");
}

// Cut anywhere, a file is refused, never read as something smaller.
TEST(ScheduleJson, RefusesTruncatedFiles) {
  const std::string text = schedule_text(small_schedule());
  for (std::size_t length = 0; length + 3 < text.size(); length += 997) {
    const std::string found = error_of(text.substr(0, length));
    EXPECT_NE(found.find("x.json: is not JSON"), std::string::npos) << length << found;
  }
  EXPECT_NE(error_of("[]").find("x.json: expected an object"), std::string::npos);
}

TEST(ValueLabels, SayWhatIsThereAndNothingElse) {
  EXPECT_EQ(value_label({TensorKind::weights, 3, 0, -1}), "weights/3@0");
  EXPECT_EQ(value_label({TensorKind::boundary, 4, 0, 2}), "boundary/4@0#2");
  EXPECT_EQ(value_label({TensorKind::tokens, -1, 1, -1}), "tokens@1");
  EXPECT_EQ(parse_value_label("gradient_sum/12@-1#7"), (Value{TensorKind::gradient_sum, 12, -1, 7}));
  for (const char* wrong : {"", "weights", "weights/3", "weights/@0", "weights/03@0", "weights/-1@0", "weights/3@2",
                            "weights/3@0#", "weights/3@0#-1", "weights/3@0 ", "weights/3@00", "weights/3@0#1#1",
                            "weights@0/3", "weights/99999999999@0", "/3@0"})
    EXPECT_FALSE(parse_value_label(wrong).has_value()) << wrong;
}

TEST(ScheduleHash, ChangesWithEverythingThatRunsAndWithNoName) {
  const Schedule schedule = small_schedule();
  const std::string hash = schedule_hash(schedule);
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef"), std::string::npos);
  const auto changed = [&](auto change) {
    Schedule other = schedule;
    change(other);
    return schedule_hash(other) != hash;
  };
  EXPECT_FALSE(changed([](Schedule&) {}));
  EXPECT_FALSE(changed([](Schedule& s) {
    s.policy = s.model.name = s.ops[0].name = s.lanes[0].name = s.buffers[0].name = "other";
    s.tiers[0].capacity_bytes += 1;  // room is no part of what runs
  }));
  EXPECT_TRUE(changed([](Schedule& s) { s.edges[0].distance ^= 1; }));
  EXPECT_TRUE(changed([](Schedule& s) { s.edges.pop_back(); }));
  EXPECT_TRUE(changed([](Schedule& s) { s.ops[4].reads[0].value.version = 1; }));
  EXPECT_TRUE(changed([](Schedule& s) { s.ops[4].writes[0].offset_bytes = 1; }));
  EXPECT_TRUE(changed([](Schedule& s) { s.buffers[1].offset_bytes += 256; }));
  EXPECT_TRUE(changed([](Schedule& s) { std::get<TemplateWork>(op_named(s, "loss #0").work).keep = Keep::input; }));
  EXPECT_TRUE(changed([](Schedule& s) { s.numerics.clip = false; }));
  EXPECT_TRUE(changed([](Schedule& s) { s.model.rope_theta *= 2; }));
  EXPECT_TRUE(changed([](Schedule& s) { s.micro_batch.sequences *= 2; }));
  // A read that becomes a write is another op, though the bytes are the same.
  EXPECT_TRUE(changed([](Schedule& s) {
    Op& op = op_named(s, "report");
    op.writes.push_back(op.reads.back());
    op.reads.pop_back();
  }));
}

}  // namespace
}  // namespace penstock

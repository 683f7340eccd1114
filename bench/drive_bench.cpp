// The store of a run beside plain sequential direct I/O on the same drive: reads and writes at once, equal bytes, one
// after the other in turns, so that a drive that changes meets both. Prints a row for each, and what of the best plain
// one the store reaches.
//
//   drive_bench FOLDER [--bytes SIZE] [--transfer SIZE] [--depth COUNT] [--seconds SECONDS] [--rounds ROUNDS] [--json FILE]
//   drive_bench FOLDER --replay SCHEDULE PREDICTED [--transfer SIZE] [--depth COUNT] [--steps STEPS] [--timeline FILE] [--json FILE]
//
// A copy is 64 MiB. Plain: one thread reads and one writes, each call as large as the row says, one call after the other,
// in one file. Store: exec/store as `run` uses it, a thread for each lane, checksums noted and verified.
// --replay makes the copies that a schedule makes on NVMe, in the pattern of its steps (drive_replay.h).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "bench/drive_replay.h"
#include "exec/memory/arena.h"
#include "exec/runtime/recorder.h"
#include "exec/store/block_store.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kCopyBytes = std::int64_t{64} << 20;

struct Rates {
  double reads = 0, writes = 0;  // bytes per second, while both go on
  double both() const { return reads + writes; }
};

/// Something that moves copy number `i` of a file between it and memory.
struct Way {
  std::string name;
  std::function<void(std::int64_t i, std::span<std::byte> memory)> read, write;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Both until both have gone on for `seconds`; each counts what it has moved until the first of them ends.
Rates run_both(const Way& way, std::int64_t copies, double seconds, std::span<std::byte> reading,
               std::span<std::byte> writing) {
  const std::int64_t begin = now_ns();
  const auto since = [begin] { return static_cast<double>(now_ns() - begin) * 1e-9; };
  const auto rate = [&](const auto& move, std::span<std::byte> memory) {
    std::int64_t done = 0;
    for (; since() < seconds; ++done) move(done % copies, memory);
    return static_cast<double>(done) * static_cast<double>(kCopyBytes) / since();
  };
  Rates rates;
  std::jthread writer([&] { rates.writes = rate(way.write, writing); });
  rates.reads = rate(way.read, reading);
  writer.join();
  return rates;
}

/// A file without a name, written whole once.
class PlainFile {
 public:
  PlainFile(const std::filesystem::path& folder, std::int64_t bytes) : path_((folder / "drive_bench.plain").string()) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
    if (file_ < 0) throw std::system_error(errno, std::generic_category(), path_);
    ::unlink(path_.c_str());
    if (const int error = ::posix_fallocate(file_, 0, bytes); error != 0)
      throw std::system_error(error, std::generic_category(), path_);
  }
  ~PlainFile() { ::close(file_); }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  void move(bool is_write, std::int64_t copy, std::span<std::byte> memory, std::int64_t call_bytes) const {
    for (std::int64_t at = 0; at < kCopyBytes;) {
      const auto bytes = static_cast<std::size_t>(std::min(call_bytes, kCopyBytes - at));
      const ssize_t moved = is_write ? ::pwrite(file_, memory.data() + at, bytes, copy * kCopyBytes + at)
                                     : ::pread(file_, memory.data() + at, bytes, copy * kCopyBytes + at);
      if (moved <= 0) throw std::system_error(moved < 0 ? errno : EIO, std::generic_category(), path_);
      at += moved;
    }
  }

 private:
  std::string path_;
  int file_ = -1;
};

struct Options {
  std::filesystem::path folder, json;
  std::string size = "4 GiB", transfer = "4 MiB";
  int depth = kDefaultDepth;
  double seconds = 3;
  int rounds = 5;
  std::vector<std::string> replay;  // schedule and predicted timeline
  std::filesystem::path timeline;
  int steps = 4;
};

void compare(const Options& options) {
  const std::int64_t copies = std::max<std::int64_t>(1, parse_bytes(options.size, "--bytes") / kCopyBytes);
  Arena reading(kCopyBytes, "what is read"), writing(kCopyBytes, "what is written");
  const auto span = [](const Arena& arena) {
    return std::span<std::byte>(arena.data(), static_cast<std::size_t>(arena.bytes()));
  };
  std::mt19937_64 random(1);
  for (std::byte& byte : span(writing)) byte = static_cast<std::byte>(random());
  const PlainFile plain(options.folder, copies * kCopyBytes);
  const StorePlace place = measuring_place(options.folder, "FOLDER");
  StoreShape shape;
  shape.bytes = copies * kCopyBytes;
  shape.transfer_bytes = parse_bytes(options.transfer, "--transfer");
  BlockStore store(place, shape, make_io_queue(options.depth), make_io_queue(options.depth));
  const std::span<std::byte> ranges[] = {span(reading), span(writing)};
  store.expect(ranges);

  std::vector<Way> ways{{"store, " + store.describe(),
                         [&](std::int64_t i, std::span<std::byte> to) { store.read(i * kCopyBytes, to); },
                         [&](std::int64_t i, std::span<std::byte> from) { store.write(i * kCopyBytes, from); }}};
  for (const std::int64_t mib : {1, 8, 64})
    ways.push_back(
        {fmt::format("plain, calls of {} MiB", mib),
         [&plain, mib](std::int64_t i, std::span<std::byte> to) { plain.move(false, i, to, mib << 20); },
         [&plain, mib](std::int64_t i, std::span<std::byte> from) { plain.move(true, i, from, mib << 20); }});
  for (std::int64_t i = 0; i < copies; ++i) {
    ways[0].write(i, span(writing));
    ways[1].write(i, span(writing));
  }
  std::vector<std::vector<Rates>> seen(ways.size());
  for (int round = 0; round < options.rounds; ++round)
    for (std::size_t i = 0; i < ways.size(); ++i)
      seen[i].push_back(run_both(ways[i], copies, options.seconds, span(reading), span(writing)));

  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  double best_plain = 0, ours = 0;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    std::vector<double> reads, writes, both;
    for (const Rates& rates : seen[i]) {
      reads.push_back(rates.reads);
      writes.push_back(rates.writes);
      both.push_back(rates.both());
    }
    const double together = median(both);
    if (i == 0)
      ours = together;
    else
      best_plain = std::max(best_plain, together);
    const auto [least, most] = std::minmax_element(both.begin(), both.end());
    fmt::print("{:<64} reads {:.2f} GB/s, writes {:.2f} GB/s, both {:.2f} GB/s ({:.2f} to {:.2f})\n", ways[i].name,
               median(reads) * 1e-9, median(writes) * 1e-9, together * 1e-9, *least * 1e-9, *most * 1e-9);
    rows.push_back({{"way", ways[i].name},
                    {"read_bytes_per_second", median(reads)},
                    {"write_bytes_per_second", median(writes)},
                    {"both_bytes_per_second", together},
                    {"least", *least},
                    {"most", *most}});
  }
  fmt::print("the store reaches {:.1f} % of the best plain one\n", 100 * ours / best_plain);
  if (options.json.empty()) return;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(options.json.c_str(), "w"), std::fclose);
  if (!file) throw std::system_error(errno, std::generic_category(), options.json.string());
  fmt::print(file.get(), "{}\n",
             nlohmann::ordered_json{{"of_best_plain", ours / best_plain},
                                    {"bytes", copies * kCopyBytes},
                                    {"seconds", options.seconds},
                                    {"rounds", options.rounds},
                                    {"ways", rows}}
                 .dump(2));
}

}  // namespace
}  // namespace penstock::exec

int main(int argc, char** argv) {
  penstock::exec::Options options;
  CLI::App app("The store of a run beside plain sequential direct I/O, reading and writing at once");
  app.add_option("FOLDER", options.folder, "on the drive")->required();
  app.add_option("--bytes", options.size, "of each file")->capture_default_str();
  app.add_option("--transfer", options.transfer, "what one transfer of the store moves")->capture_default_str();
  app.add_option("--depth", options.depth, "its transfers in flight each way")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_option("--seconds", options.seconds, "of each row in each round")->capture_default_str();
  app.add_option("--rounds", options.rounds, "")->capture_default_str()->check(CLI::Range(1, 100));
  app.add_option("--json", options.json, "the rows as JSON");
  app.add_option("--replay", options.replay,
                 "the copies on NVMe of a schedule, in the pattern of its predicted timeline")
      ->type_name("SCHEDULE PREDICTED")
      ->expected(2);
  CLI::Option* const replay = app.get_option("--replay");
  app.add_option("--steps", options.steps, "that are replayed; the first one does not count")
      ->capture_default_str()
      ->check(CLI::Range(3, 1000))
      ->needs(replay);
  app.add_option("--timeline", options.timeline, "what was replayed, for `penstock-sim compare`")->needs(replay);
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.replay.empty())
      penstock::exec::compare(options);
    else
      penstock::exec::replay({options.folder, options.replay[0], options.replay[1], options.timeline, options.json,
                              penstock::parse_bytes(options.transfer, "--transfer"), options.depth, options.steps});
  } catch (const std::exception& error) {
    fmt::print(stderr, "drive_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}

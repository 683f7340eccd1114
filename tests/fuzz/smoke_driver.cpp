// Runs a libFuzzer entry without libFuzzer: every seed as it is, then deterministic mutations of the seeds.
//   TARGET ITERATIONS SEED_FILE...
// The same command gives the same inputs on every machine. A crash leaves its input as `fuzz-crash-<pid>` in the
// temporary folder, to be given to the target as a seed with 0 iterations. A target linked with -fsanitize=fuzzer
// instead of this file is an ordinary libFuzzer program.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

/// What parsers trip over.
constexpr std::string_view kTokens[] = {"-1",
                                        "0",
                                        "1e400",
                                        "-0.0",
                                        "nan",
                                        "inf",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "18446744073709551616",
                                        "1e18",
                                        "4294967296",
                                        "null",
                                        "true",
                                        "{}",
                                        "[]",
                                        "[[[[[[[[",
                                        "{\"a\":{\"a\":",
                                        "]",
                                        "}",
                                        "\"",
                                        "\\u0000",
                                        "\\ud800",
                                        "\n",
                                        "\r\n",
                                        "#",
                                        ".",
                                        "=",
                                        "[a.b.c]",
                                        "[[x]]",
                                        "'''",
                                        "\"\"\"",
                                        "1979-05-27",
                                        "0x7f",
                                        "\xff\xfe",
                                        "\xc3",
                                        " GiB",
                                        " GB/s",
                                        " TFLOP/s"};

std::string g_current;

void write_current() {
  const char* folder = std::getenv("TMPDIR");
  const std::string path =
      std::string(folder != nullptr ? folder : "/tmp") + "/fuzz-crash-" + std::to_string(::getpid());
  std::ofstream(path, std::ios::binary) << g_current;
  std::fprintf(stderr, "fuzz: the input at fault is in %s\n", path.c_str());
}

extern "C" void on_crash(int signal) {
  std::signal(signal, SIG_DFL);
  write_current();  // not async-signal-safe, but the program is lost anyway
  std::raise(signal);
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    const std::size_t changes = 1 + below(4);
    for (std::size_t i = 0; i < changes; ++i) mutate(text);
    return text;
  }

 private:
  // Modulo and not a distribution: those of the standard library differ from one implementation to another.
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : static_cast<std::size_t>(random_() % bound); }

  void mutate(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = below(std::min<std::size_t>(text.size() - at, 40) + 1);
    switch (below(8)) {
      case 0:  // one bit
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, std::string(text, at, length)); break;
      case 3: text.resize(at); break;
      case 4: text.insert(at, kTokens[below(std::size(kTokens))]); break;
      case 5: replace_word(text, at); break;
      case 6: {  // the tail of another seed
        const std::string& other = seeds_[below(seeds_.size())];
        text.resize(at);
        text.append(other, below(other.size() + 1), std::string::npos);
        break;
      }
      default: text.insert(at, std::string(1 + below(300), at < text.size() ? text[at] : '[')); break;
    }
  }

  /// Puts a token in place of the number, word or text that stands at `at`.
  void replace_word(std::string& text, std::size_t at) {
    const auto is_word = [](char c) {
      return c != ' ' && c != '\n' && c != ',' && c != ':' && c != '=' && c != '{' && c != '}';
    };
    std::size_t begin = at, end = at;
    while (begin > 0 && is_word(text[begin - 1])) --begin;
    while (end < text.size() && is_word(text[end])) ++end;
    text.replace(begin, end - begin, kTokens[below(std::size(kTokens))]);
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_{20261129};
};

void run(const std::string& input) {
  g_current = input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(g_current.data()), g_current.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s ITERATIONS SEED_FILE...\n", argv[0]);
    return 2;
  }
  std::vector<std::string> seeds;
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "fuzz: cannot read the seed %s\n", argv[i]);
      return 2;
    }
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGALRM}) std::signal(signal, on_crash);
  const long iterations = std::strtol(argv[1], nullptr, 10);
  for (const std::string& seed : seeds) run(seed);
  Mutator mutator(seeds);
  for (long i = 0; i < iterations; ++i) {
    ::alarm(20);  // an input that hangs
    run(mutator.next());
  }
  std::printf("%ld mutations of %zu seeds\n", iterations, seeds.size());
  return 0;
}

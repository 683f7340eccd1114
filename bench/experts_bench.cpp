// Mixtures of experts on the device at hand: grouped products beside one dense product of the same rows, and a layer's MLP
// from router to sum beside a dense one of the same rows. Medians of event times over random data; tokens are routed
// unevenly, the busiest expert about six times the mean, as a trained router does. Prints a table, writes JSON where asked
// to.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/event_times.h"
#include "bench/experts_weight_gradients.h"
#include "exec/cuda/device_memory.h"
#include "exec/cuda/error.h"
#include "exec/cuda/experts.h"
#include "exec/cuda/grouped_matmul.h"
#include "exec/cuda/matmul.h"
#include "shared/files.h"
#include "shared/random.h"

namespace penstock::exec {
namespace {

struct Layer {
  std::string name;
  std::int64_t experts, per_token, hidden, width;
};
const Layer kLayers[] = {{"Qwen3-30B-A3B", 128, 8, 2048, 768}, {"OLMoE-1B-7B", 64, 8, 2048, 1024}};
constexpr double kBusiest = 6;  // times the mean

/// Of each token and expert; some experts are likelier than others.
DeviceMemory random_logits(const Layer& layer, std::int64_t tokens) {
  std::vector<float> logits(static_cast<std::size_t>(tokens * layer.experts));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double place = static_cast<double>(static_cast<std::int64_t>(i) % layer.experts) /
                         static_cast<double>(std::max<std::int64_t>(1, layer.experts - 1));
    logits[i] = random_normal(2, i) + static_cast<float>(kBusiest / 2 * (0.5 - place));
  }
  DeviceMemory memory(4 * static_cast<std::int64_t>(logits.size()));
  memory.upload(logits.data(), memory.bytes());
  return memory;
}

class LayerBench {
 public:
  LayerBench(const EventTimes& times, Matmul& matmul, const Layer& layer, std::int64_t tokens)
      : times_(times),
        matmul_(matmul),
        layer_(layer),
        tokens_(tokens),
        rows_(tokens * layer.per_token),
        experts_{.count = layer.experts, .per_token = layer.per_token, .dense_layers = {}} {
    expert_choice(experts_, logits_.as<float>(), tokens_, choice_.as<std::int32_t>(), weights_.as<float>(), stream());
    expert_order(experts_, choice_.as<std::int32_t>(), tokens_, order(), workspace(), stream());
    PENSTOCK_CUDA(cudaStreamSynchronize(stream()));
    std::vector<std::int32_t> first(static_cast<std::size_t>(layer.experts + 1));
    first_.download(first.data(), first_.bytes());
    std::int32_t least = first[1], most = 0;
    for (std::size_t e = 0; e + 1 < first.size(); ++e) {
      least = std::min(least, first[e + 1] - first[e]);
      most = std::max(most, first[e + 1] - first[e]);
    }
    fmt::print("{}, {} tokens: {} rows, of an expert {} to {}, mean {}\n", layer.name, tokens, rows_, least, most,
               rows_ / layer.experts);
    result_ = {{"layer", layer.name}, {"tokens", tokens}, {"rows", rows_}, {"least", least}, {"most", most}};
  }

  nlohmann::json run() {
    const std::int64_t hidden = layer_.hidden, width = layer_.width;
    compare("gate_up", 2 * width, hidden, Kind::forward);
    compare("down", hidden, width, Kind::forward);
    compare("down input gradient", hidden, width, Kind::input_gradient);
    compare("gate_up input gradient", 2 * width, hidden, Kind::input_gradient);
    compare("down weight gradient", hidden, width, Kind::weight_gradient);
    compare("gate_up weight gradient", 2 * width, hidden, Kind::weight_gradient);
    whole();
    return result_;
  }

  /// Weight gradients alone, in the product's form and in each other one.
  nlohmann::json run_weight_gradients() {
    compare_forms("down weight gradient", layer_.hidden, layer_.width);
    compare_forms("gate_up weight gradient", 2 * layer_.width, layer_.hidden);
    return result_;
  }

 private:
  enum class Kind { forward, input_gradient, weight_gradient };

  Stream stream() const { return times_.stream(); }
  double median_ms(const std::function<void()>& run) const { return times_.of(15, run).median; }
  LibraryWorkspace workspace() const { return {library_.data(), library_.bytes()}; }
  RowPlaces order() const {
    return {first_.as<std::int32_t>(), row_.as<std::int32_t>(), choice_of_.as<std::int32_t>()};
  }
  ExpertRows rows() const { return {first_.as<std::int32_t>(), layer_.experts, rows_}; }

  void report(const std::string& name, double flops, double grouped_ms, double dense_ms) {
    fmt::print("  {:<26} grouped {:>8.3f} ms {:>6.1f} TFLOP/s   dense {:>8.3f} ms {:>6.1f} TFLOP/s   {:>5.1f} %\n",
               name, grouped_ms, flops / grouped_ms * 1e-9, dense_ms, flops / dense_ms * 1e-9,
               100 * dense_ms / grouped_ms);
    std::fflush(stdout);
    result_["products"][name] = {{"grouped_milliseconds", grouped_ms},
                                 {"dense_milliseconds", dense_ms},
                                 {"flops", flops},
                                 {"share_of_dense", dense_ms / grouped_ms}};
  }

  void compare(const std::string& name, std::int64_t outputs, std::int64_t inputs, Kind kind) {
    const ExpertMatrices matrices{weight_.as<std::uint16_t>(), outputs * inputs};
    std::uint16_t *const x = x_.as<std::uint16_t>(), *const y = y_.as<std::uint16_t>();
    const GradientTarget gradient{gradient_.data(), ElementType::fp32, true};
    double grouped = 0, dense = 0;
    switch (kind) {
      case Kind::forward:
        grouped = median_ms([&] { grouped_forward(rows(), x, matrices, y, outputs, inputs, workspace(), stream()); });
        dense = median_ms([&] {
          matmul_.forward(x, matrices.first, nullptr, nullptr, y, rows_, outputs, inputs, workspace(), stream());
        });
        break;
      case Kind::input_gradient:
        grouped =
            median_ms([&] { grouped_input_gradient(rows(), y, matrices, x, outputs, inputs, workspace(), stream()); });
        dense = median_ms(
            [&] { matmul_.input_gradient(y, matrices.first, x, rows_, outputs, inputs, workspace(), stream()); });
        break;
      case Kind::weight_gradient:
        grouped = median_ms([&] {
          grouped_weight_gradient(rows(), y, x, gradient, outputs * inputs, outputs, inputs, workspace(), stream());
        });
        dense =
            median_ms([&] { matmul_.weight_gradient(y, x, gradient, rows_, outputs, inputs, workspace(), stream()); });
        break;
    }
    report(name, 2.0 * static_cast<double>(rows_ * outputs * inputs), grouped, dense);
  }

  void compare_forms(const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    std::uint16_t *const x = x_.as<std::uint16_t>(), *const y = y_.as<std::uint16_t>();
    const GradientTarget gradient{gradient_.data(), ElementType::fp32, true};
    const GradientTarget overwritten{gradient_.data(), ElementType::fp32, false};
    const double dense =
        median_ms([&] { matmul_.weight_gradient(y, x, gradient, rows_, outputs, inputs, workspace(), stream()); });
    const WeightGradientForm product{"as in the product", grouped_weight_gradient};
    std::vector<WeightGradientForm> forms{product};
    for (const WeightGradientForm& form : weight_gradient_forms()) forms.push_back(form);
    std::vector<float> expected_set, expected_added;
    for (const WeightGradientForm& form : forms) {
      const auto run = [&](const WeightGradientForm& of, const GradientTarget& target) {
        of.run(rows(), y, x, target, outputs * inputs, outputs, inputs, workspace(), stream());
      };
      const double ms = median_ms([&] { run(form, gradient); });
      run(form, overwritten);
      bool same = agrees(expected_set, outputs * inputs);
      run(product, overwritten);
      run(form, gradient);
      same &= agrees(expected_added, outputs * inputs);
      const std::string label = fmt::format("{}, {}{}", name, form.name, same ? "" : ", OTHER BITS");
      report(label, 2.0 * static_cast<double>(rows_ * outputs * inputs), ms, dense);
    }
  }

  /// The gradients are as expected, which the first ones are by definition.
  bool agrees(std::vector<float>& expected, std::int64_t elements) {
    std::vector<float> found(static_cast<std::size_t>(layer_.experts * elements));
    PENSTOCK_CUDA(cudaStreamSynchronize(stream()));
    gradient_.download(found.data(), static_cast<std::int64_t>(4 * found.size()));
    if (expected.empty()) expected = found;
    return found == expected;
  }

  void whole() {
    const std::int64_t hidden = layer_.hidden, width = layer_.width;
    std::uint16_t *const tokens = tokens_in_.as<std::uint16_t>(), *const x = x_.as<std::uint16_t>();
    std::uint16_t *const wide = y_.as<std::uint16_t>(), *const product = product_.as<std::uint16_t>();
    const std::uint16_t* const w = weight_.as<std::uint16_t>();
    const auto piece = [&](const char* name, const std::function<void()>& run) {
      const double ms = median_ms(run);
      fmt::print("  {:<26} {:>8.3f} ms\n", name, ms);
      result_["kernels"][name] = ms;
    };
    const auto router = [&] {
      matmul_.forward(tokens, w, scratch_logits_.as<float>(), tokens_, layer_.experts, hidden, workspace(), stream());
    };
    const auto choose = [&] {
      expert_choice(experts_, logits_.as<float>(), tokens_, choice_.as<std::int32_t>(), weights_.as<float>(), stream());
    };
    const auto sort = [&] {
      expert_order(experts_, choice_.as<std::int32_t>(), tokens_, order(), workspace(), stream());
    };
    const auto gather = [&] { expert_rows(experts_, order(), tokens, x, tokens_, hidden, stream()); };
    const auto add = [&] {
      expert_sum(experts_, order(), x, weights_.as<float>(), tokens, tokens_out_.as<std::uint16_t>(), tokens_, hidden,
                 stream());
    };
    const auto activate = [&] { swiglu_forward(wide, product, rows_, width, stream()); };
    piece("router", router);
    piece("expert choice", choose);
    piece("expert order", sort);
    piece("expert rows", gather);
    piece("experts swiglu", activate);
    piece("expert sum", add);
    piece("experts swiglu backward", [&] {
      experts_swiglu_backward(order(), wide, x, weights_.as<float>(), product, wide, d_weights_.as<float>(), rows_,
                              width, stream());
    });
    const double grouped = median_ms([&] {
      router();
      choose();
      sort();
      gather();
      grouped_forward(rows(), x, {w, 2 * width * hidden}, wide, 2 * width, hidden, workspace(), stream());
      activate();
      grouped_forward(rows(), product, {w, width * hidden}, x, hidden, width, workspace(), stream());
      add();
    });
    const double dense = median_ms([&] {
      matmul_.forward(x, w, nullptr, nullptr, wide, rows_, 2 * width, hidden, workspace(), stream());
      activate();
      matmul_.forward(product, w, nullptr, x, x, rows_, hidden, width, workspace(), stream());
    });
    report("router to sum", 6.0 * static_cast<double>(rows_ * hidden * width), grouped, dense);
  }

  const EventTimes& times_;
  Matmul& matmul_;
  const Layer& layer_;
  const std::int64_t tokens_, rows_;
  const Experts experts_;
  const DeviceMemory logits_ = random_logits(layer_, tokens_), scratch_logits_{4 * tokens_ * layer_.experts};
  const DeviceMemory choice_{4 * rows_}, weights_{4 * rows_}, d_weights_{4 * rows_};
  const DeviceMemory first_{4 * (layer_.experts + 1)}, row_{4 * rows_}, choice_of_{4 * rows_};
  const DeviceMemory library_{kLibraryWorkspaceBytes};
  const DeviceMemory tokens_in_ = random_memory(tokens_ * layer_.hidden, 1), tokens_out_{2 * tokens_ * layer_.hidden};
  const DeviceMemory x_ = random_memory(rows_ * layer_.hidden, 1);
  const DeviceMemory y_ = random_memory(rows_ * std::max(layer_.hidden, 2 * layer_.width), 1);
  const DeviceMemory product_ = random_memory(rows_ * layer_.width, 1);
  const DeviceMemory weight_ = random_memory(layer_.experts * 2 * layer_.width * layer_.hidden, 0.02f);
  const DeviceMemory gradient_{4 * layer_.experts * 2 * layer_.width * layer_.hidden};
  nlohmann::json result_;
};

int run(int argc, char** argv) {
  CLI::App app("Times of grouped products and of a mixture of experts' other kernels on this device");
  std::string json_path;
  bool weight_gradients = false;
  app.add_option("--json", json_path, "write the results here");
  app.add_flag("--weight-gradients", weight_gradients, "these alone, in every form that is compiled in");
  CLI11_PARSE(app, argc, argv);
  if (const std::string reason = why_no_device(); !reason.empty()) {
    fmt::print("skipped: needs a CUDA device: {}\n", reason);
    return 0;
  }
  const EventTimes times;
  Matmul matmul;
  nlohmann::json results = nlohmann::json::array();
  for (const Layer& layer : kLayers)
    for (const std::int64_t tokens : {16384, 65536}) {
      LayerBench bench(times, matmul, layer, tokens);
      results.push_back(weight_gradients ? bench.run_weight_gradients() : bench.run());
    }
  if (!json_path.empty()) write_text_file(json_path, results.dump(1) + "\n");
  return 0;
}

}  // namespace
}  // namespace penstock::exec

int main(int argc, char** argv) { return penstock::exec::run(argc, argv); }

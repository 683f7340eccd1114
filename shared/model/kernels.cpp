#include "shared/model/kernels.h"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

constexpr std::int64_t kBf16 = 2;
constexpr std::int64_t kFp32 = 4;

/// Adds kernels in order of execution. Row counts are of one kernel; the list takes chunks as `count`.
class KernelList {
 public:
  explicit KernelList(std::int64_t gradient_bytes) : gradient_bytes_(gradient_bytes) {}

  /// [rows, k] x [k, n] into bf16; `residual`: another [rows, n] is added on the way out.
  void matmul(std::string_view name, std::int64_t rows, std::int64_t n, std::int64_t k, std::int64_t count = 1,
              bool residual = false) {
    Kernel kernel = product(name, rows, n, k, count);
    kernel.output_bytes = kBf16;
    kernel.bytes += (residual ? 2 : 1) * rows * n * kBf16;
    kernels_.push_back(kernel);
  }

  /// Gradient of weights [m, n] from `rows` rows.
  void weight_gradient(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t rows, std::int64_t count,
                       bool accumulates) {
    Kernel kernel = product(name, m, n, rows, count);
    kernel.accumulates = accumulates;
    kernel.output_bytes = gradient_bytes_;
    kernel.bytes += (accumulates ? 2 : 1) * m * n * gradient_bytes_;
    kernels_.push_back(kernel);
  }

  void elementwise(std::string_view name, std::int64_t bytes, std::int64_t count = 1) {
    Kernel kernel;
    kernel.kind = KernelKind::elementwise;
    kernel.name = name;
    kernel.count = count;
    kernel.bytes = bytes;
    kernels_.push_back(kernel);
  }

  void attention(const Model& model, BatchShape batch, bool backward) {
    const ModelConfig& config = model.config;
    Kernel kernel;
    kernel.kind = backward ? KernelKind::attention_backward : KernelKind::attention_forward;
    kernel.name = backward ? "attention backward" : "attention";
    kernel.sequences = batch.sequences;
    kernel.length = batch.sequence_length;
    kernel.heads = config.heads;
    kernel.kv_heads = config.kv_heads;
    kernel.head_dim = config.head_dim;
    kernel.flops = attention_forward_flops(config, batch) * (backward ? 2.5 : 1.0);
    const std::int64_t qkv = batch.tokens() * model.qkv_columns() * kBf16;
    const std::int64_t context = batch.tokens() * model.query_columns() * kBf16;
    const std::int64_t lse = batch.tokens() * config.heads * kFp32;
    kernel.bytes = backward ? 2 * qkv + 2 * context + lse : qkv + context + lse;
    kernels_.push_back(kernel);
  }

  static double attention_forward_flops(const ModelConfig& config, BatchShape batch) {
    const auto length = static_cast<double>(batch.sequence_length);
    return 2.0 * static_cast<double>(batch.sequences * config.heads * config.head_dim) * length * length;
  }

  std::vector<Kernel> take() { return std::move(kernels_); }

 private:
  static Kernel product(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count) {
    Kernel kernel;
    kernel.kind = KernelKind::matmul;
    kernel.name = name;
    kernel.m = m;
    kernel.n = n;
    kernel.k = k;
    kernel.count = count;
    kernel.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    kernel.bytes = (m * k + k * n) * kBf16;
    return kernel;
  }

  const std::int64_t gradient_bytes_;
  std::vector<Kernel> kernels_;
};

struct Chunks {
  std::int64_t rows = 0;
  std::int64_t count = 0;
  bool is_first = false;
};

/// `tokens` rows cut into chunks, as runs of equal ones; the first chunk apart where it overwrites what later ones add
/// to.
std::vector<Chunks> cut(std::int64_t tokens, std::int64_t chunk, bool first_apart) {
  chunk = chunk > 0 ? std::min(chunk, tokens) : tokens;
  const std::int64_t first = first_apart ? 1 : 0;
  std::vector<Chunks> runs{{chunk, first, true}, {chunk, tokens / chunk - first, false}, {tokens % chunk, 1, false}};
  std::erase_if(runs, [](const Chunks& run) { return run.rows == 0 || run.count == 0; });
  return runs;
}

class DecoderKernels {
 public:
  DecoderKernels(const Model& model, BatchShape batch, const LayoutOptions& options, std::int64_t gradient_bytes)
      : model_(model),
        batch_(batch),
        options_(options),
        tokens_(batch.tokens()),
        hidden_(model.config.hidden),
        intermediate_(model.config.intermediate),
        row_bytes_(batch.tokens() * model.config.hidden * kBf16),
        list_(gradient_bytes) {}

  std::vector<Kernel> forward() {
    make_qkv();
    make_middle();
    make_mlp(true, true);
    return list_.take();
  }

  std::vector<Kernel> recompute(bool writes_output) {
    const bool everything = options_.keep == Keep::everything;
    if (!everything) make_qkv();
    if (options_.keep == Keep::input) make_middle();
    const bool gate_up = !everything && (writes_output || !mlp_recomputed_in_backward(batch_, options_));
    if (gate_up || writes_output) make_mlp(gate_up, writes_output);
    return list_.take();
  }

  std::vector<Kernel> backward(bool accumulates) {
    mlp_backward(accumulates);
    const std::int64_t query = model_.query_columns(), qkv = model_.qkv_columns();
    list_.weight_gradient("attention output weight gradient", hidden_, query, tokens_, 1, accumulates);
    list_.matmul("attention output input gradient", tokens_, query, hidden_);
    list_.attention(model_, batch_, true);
    rotary(true);
    if (model_.config.qkv_bias) list_.elementwise("qkv bias gradient", tokens_ * qkv * kBf16);
    list_.elementwise("input norm", 2 * row_bytes_);
    list_.weight_gradient("qkv weight gradient", qkv, hidden_, tokens_, 1, accumulates);
    list_.matmul("qkv input gradient", tokens_, hidden_, qkv);
    list_.elementwise("input norm backward", 4 * row_bytes_);
    return list_.take();
  }

 private:
  void make_qkv() {
    list_.elementwise("input norm", 2 * row_bytes_);
    list_.matmul("qkv", tokens_, model_.qkv_columns(), hidden_);
    rotary(false);
  }

  void make_middle() {
    list_.attention(model_, batch_, false);
    list_.matmul("attention output", tokens_, hidden_, model_.query_columns(), 1, true);
  }

  void make_mlp(bool gate_up, bool output) {
    if (gate_up) list_.elementwise("middle norm", 2 * row_bytes_);
    for (const Chunks& chunks : cut(tokens_, options_.chunking.mlp_tokens, false)) {
      if (gate_up) list_.matmul("gate_up", chunks.rows, 2 * intermediate_, hidden_, chunks.count);
      if (!output) continue;
      list_.elementwise("swiglu", 3 * chunks.rows * intermediate_ * kBf16, chunks.count);
      list_.matmul("down", chunks.rows, hidden_, intermediate_, chunks.count, true);
    }
  }

  void mlp_backward(bool accumulates) {
    list_.elementwise("middle norm", 2 * row_bytes_);
    const bool redo = mlp_recomputed_in_backward(batch_, options_);
    for (const Chunks& chunks : cut(tokens_, options_.chunking.mlp_tokens, !accumulates)) {
      const std::int64_t rows = chunks.rows, count = chunks.count;
      const bool adds = !chunks.is_first;
      if (redo) list_.matmul("gate_up", rows, 2 * intermediate_, hidden_, count);
      list_.matmul("down input gradient", rows, intermediate_, hidden_, count);
      // Reads gate, up and the product's gradient; writes the gradients of gate and up, and the product once more.
      list_.elementwise("swiglu backward", 6 * rows * intermediate_ * kBf16, count);
      list_.weight_gradient("down weight gradient", hidden_, intermediate_, rows, count, adds);
      list_.weight_gradient("gate_up weight gradient", 2 * intermediate_, hidden_, rows, count, adds);
      list_.matmul("gate_up input gradient", rows, hidden_, 2 * intermediate_, count);
    }
    list_.elementwise("middle norm backward", 4 * row_bytes_);
  }

  /// In place on q and k; with QK norm, which shares the kernel, the values before it are written (or read) too.
  void rotary(bool backward) {
    const std::int64_t bytes = tokens_ * (model_.query_columns() + model_.key_columns()) * kBf16;
    const bool norm = model_.config.qk_norm;
    list_.elementwise(backward ? (norm ? "qk norm and rotary backward" : "rotary backward")
                               : (norm ? "qk norm and rotary" : "rotary"),
                      (norm ? 3 : 2) * bytes);
  }

  const Model& model_;
  const BatchShape batch_;
  const LayoutOptions& options_;
  const std::int64_t tokens_, hidden_, intermediate_, row_bytes_;
  KernelList list_;
};

std::vector<Kernel> head_kernels(const Model& model, BatchShape batch, const Chunking& chunking, bool accumulates,
                                 std::int64_t gradient_bytes) {
  const std::int64_t tokens = batch.tokens(), hidden = model.config.hidden, vocabulary = model.config.vocabulary;
  const std::int64_t chunk = chunking.loss_tokens > 0 ? chunking.loss_tokens : kDefaultLossTokens;
  KernelList list(gradient_bytes);
  list.elementwise("final norm", 2 * tokens * hidden * kBf16);
  for (const Chunks& chunks : cut(tokens, chunk, !accumulates)) {
    list.matmul("logits", chunks.rows, vocabulary, hidden, chunks.count);
    list.elementwise("cross entropy", 2 * chunks.rows * vocabulary * kBf16, chunks.count);
    list.matmul("projection input gradient", chunks.rows, hidden, vocabulary, chunks.count);
    list.weight_gradient("projection weight gradient", vocabulary, hidden, chunks.rows, chunks.count, !chunks.is_first);
  }
  list.elementwise("loss sum", tokens * 4 * kFp32);
  list.elementwise("final norm backward", 3 * tokens * hidden * kBf16);
  return list.take();
}

std::vector<Kernel> embedding_kernels(const Model& model, BatchShape batch, Pass pass, bool accumulates,
                                      std::int64_t gradient_bytes) {
  const std::int64_t elements = batch.tokens() * model.config.hidden;
  KernelList list(gradient_bytes);
  if (pass == Pass::forward) {
    list.elementwise("embedding", 2 * elements * kBf16);
  } else {
    if (!accumulates)
      list.elementwise("embedding gradient zero", model.config.vocabulary * model.config.hidden * gradient_bytes);
    list.elementwise("embedding backward", elements * (kBf16 + 2 * gradient_bytes));
  }
  return list.take();
}

}  // namespace

std::vector<Kernel> template_kernels(const Model& model, LayerKind kind, Pass pass, BatchShape batch,
                                     const LayoutOptions& options, bool writes_output, bool accumulates,
                                     std::int64_t gradient_bytes) {
  if (kind == LayerKind::embedding) return embedding_kernels(model, batch, pass, accumulates, gradient_bytes);
  if (kind == LayerKind::head) return head_kernels(model, batch, options.chunking, accumulates, gradient_bytes);
  DecoderKernels decoder(model, batch, options, gradient_bytes);
  if (pass == Pass::forward) return decoder.forward();
  return pass == Pass::recompute ? decoder.recompute(writes_output) : decoder.backward(accumulates);
}

double kernel_flops(const std::vector<Kernel>& kernels) {
  double flops = 0;
  for (const Kernel& kernel : kernels) flops += static_cast<double>(kernel.count) * kernel.flops;
  return flops;
}

double model_flops(const Model& model, BatchShape whole_step) {
  const ModelConfig& config = model.config;
  const auto layers = static_cast<double>(config.decoder_layers);
  const std::int64_t per_layer =
      config.hidden * (model.qkv_columns() + model.query_columns() + 3 * config.intermediate);
  const double matmul_parameters = layers * static_cast<double>(per_layer) +
                                   static_cast<double>(config.vocabulary) * static_cast<double>(config.hidden);
  return 6.0 * matmul_parameters * static_cast<double>(whole_step.tokens()) +
         3.0 * layers * KernelList::attention_forward_flops(config, whole_step);
}

}  // namespace penstock

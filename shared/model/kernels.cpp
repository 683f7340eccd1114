#include "shared/model/kernels.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace penstock {
namespace {

constexpr std::int64_t kBf16 = 2;
constexpr std::int64_t kFp32 = 4;

static_assert(
    [] {
      for (std::size_t i = 0; i < kKernelNames.size(); ++i)
        if (static_cast<std::size_t>(kKernelNames[i].kernel) != i) return false;
      return kKernelNames.size() == static_cast<std::size_t>(KernelId::expert_balance) + 1;
    }(),
    "kKernelNames is in the order of KernelId");

/// What a list of kernels depends on.
struct PassOptions {
  LayerKind kind;
  Pass pass;
  BatchShape batch;
  const LayoutOptions& layout;
  bool writes_output, accumulates;
};

bool has_part(const PassOptions& o, Part part) {
  const bool recompute = o.pass == Pass::recompute, makes = o.pass == Pass::forward || recompute;
  const bool backward = is_backward(o.pass), later = mlp_recomputed_in_backward(o.batch, o.layout);
  const bool everything = recompute && o.layout.keep == Keep::everything;
  const bool output = !recompute || o.writes_output;
  const auto decoder = [&](bool has) { return is_decoder(o.kind) && has; };
  const auto dense = [&](bool has) { return o.kind == LayerKind::decoder && has; };
  const auto experts = [&](bool has) { return o.kind == LayerKind::experts && has; };
  const bool gate_up = makes && !everything && (output || !later);
  switch (part) {
    case Part::embed: return o.kind == LayerKind::embedding && o.pass == Pass::forward;
    case Part::embedding_overwrite: return o.kind == LayerKind::embedding && backward && !o.accumulates;
    case Part::embedding_gradient: return o.kind == LayerKind::embedding && backward;
    case Part::make_qkv: return decoder(makes && !everything);
    case Part::hand_on_keys: return decoder(o.pass == Pass::forward && o.batch.is_cut());
    case Part::keep_queries:
      return decoder(o.pass == Pass::forward && o.batch.is_cut() && o.layout.keep == Keep::everything);
    case Part::make_context: return decoder(makes && (!recompute || o.layout.keep < Keep::input_context));
    case Part::make_middle: return decoder(makes && (!recompute || o.layout.keep < Keep::input_attention));
    case Part::make_gate_up: return decoder(gate_up);
    case Part::gate_up_chunk: return dense(gate_up);
    case Part::output_chunk: return dense(makes && output);
    case Part::gate_up_again: return dense(backward && later);
    case Part::backward_mlp: return dense(backward);
    case Part::backward_begin:
    case Part::backward_rest: return decoder(backward);
    case Part::route:
    case Part::experts_gate_up_chunk: return experts(gate_up);
    case Part::experts_order_chunk: return experts(gate_up || (makes && output));
    case Part::experts_output_chunk:
    case Part::experts_output: return experts(makes && output);
    case Part::route_again:
    case Part::experts_gate_up_again: return experts(backward && later);
    case Part::experts_backward_begin:
    case Part::experts_backward:
    case Part::route_backward: return experts(backward);
    case Part::head_begin:
    case Part::head_chunk:
    case Part::head_loss: return o.kind == LayerKind::head && is_loss(o.pass);
    case Part::head_gradient_chunk:
    case Part::head_gradient: return o.kind == LayerKind::head && is_loss(o.pass) && o.pass != Pass::evaluate;
  }
  return false;
}

/// And nothing else.
bool makes_weight_gradient(const TemplateKernel& line) {
  return line.result == ProductResult::gradient || line.kernel == KernelId::qkv_bias_gradient;
}

bool is_chunked(Part part) {
  return part == Part::experts_order_chunk || part == Part::experts_gate_up_chunk ||
         part == Part::experts_output_chunk || part == Part::experts_backward_begin ||
         part == Part::experts_gate_up_again || part == Part::experts_backward || part == Part::gate_up_chunk ||
         part == Part::output_chunk || part == Part::gate_up_again || part == Part::backward_mlp ||
         part == Part::head_chunk || part == Part::head_gradient_chunk;
}

/// Executions of equal size.
struct Chunks {
  std::int64_t rows = 0;
  std::int64_t count = 0;
  bool is_first = false;
};

/// `tokens` rows cut into chunks, as runs of equal ones; the first chunk apart where it overwrites what later ones add
/// to.
std::vector<Chunks> cut(std::int64_t tokens, std::int64_t chunk, bool first_apart) {
  const std::int64_t first = first_apart ? 1 : 0;
  std::vector<Chunks> runs{{chunk, first, true}, {chunk, tokens / chunk - first, false}, {tokens % chunk, 1, false}};
  std::erase_if(runs, [](const Chunks& run) { return run.rows == 0 || run.count == 0; });
  return runs;
}

Kernel attention_kernel(const TemplateKernel& line, const ModelConfig& config, BatchShape batch, std::int64_t window) {
  const bool backward = line.kind == KernelKind::attention_backward;
  Kernel kernel;
  kernel.attention = attention_spec(config, batch, window);
  const AttentionSpec& spec = kernel.attention;
  kernel.flops = spec.forward_flops() * (backward ? kAttentionBackwardFlops : 1.0);
  const std::int64_t qkv = spec.tokens() * spec.columns() * kBf16;
  const std::int64_t context = spec.tokens() * spec.context_columns() * kBf16;
  const std::int64_t lse = spec.tokens() * spec.heads * kFp32;
  kernel.bytes = backward ? 2 * qkv + 2 * context + lse : qkv + context + lse;
  if (!spec.is_chunk) return kernel;
  // Keys and values of all tokens so far; backward adds to their gradient, reading and writing it.
  const std::int64_t keys = 2 * spec.sequences * spec.past * spec.kv_heads * spec.head_dim;
  kernel.bytes += keys * (backward ? kBf16 + 2 * kFp32 : kBf16);
  return kernel;
}

Kernel matmul_kernel(const TemplateKernel& line, const KernelShape& shape, double skew, bool accumulates) {
  const auto [m, n, k] = line.product(shape);
  const bool gradient = line.result == ProductResult::gradient, wide = line.result == ProductResult::fp32;
  Kernel kernel;
  if (line.is_grouped) {
    kernel.groups = shape.experts;
    kernel.groups_share_k = gradient;
    kernel.skew = skew;
  }
  const std::int64_t inputs = gradient ? 1 : kernel.groups, outputs = gradient ? kernel.groups : 1;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.accumulates = gradient && accumulates;
  kernel.output_bytes = gradient ? shape.gradient_bytes : wide ? kFp32 : kBf16;
  kernel.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const std::int64_t times = kernel.accumulates || line.result == ProductResult::residual ? 2 : 1;
  kernel.bytes = (m * k + inputs * k * n) * kBf16 + times * outputs * m * n * kernel.output_bytes;
  return kernel;
}

Kernel kernel_of(const TemplateKernel& line, const Model& model, BatchShape batch, const Chunks& chunks,
                 std::int64_t gradient_bytes, bool accumulates, std::int64_t window) {
  const KernelShape shape{model, chunks.rows, gradient_bytes};
  Kernel kernel;
  switch (line.kind) {
    case KernelKind::matmul: kernel = matmul_kernel(line, shape, batch.expert_skew, accumulates); break;
    case KernelKind::attention_forward:
    case KernelKind::attention_backward: kernel = attention_kernel(line, model.config, batch, window); break;
    case KernelKind::elementwise: kernel.bytes = line.bytes(shape); break;
  }
  kernel.kind = line.kind;
  kernel.id = line.kernel;
  kernel.count = chunks.count;
  return kernel;
}

}  // namespace

std::optional<KernelId> find_kernel(std::string_view name) {
  for (const KernelName& known : kKernelNames)
    if (known.name == name) return known.kernel;
  return std::nullopt;
}

std::vector<Kernel> template_kernels(const Model& model, LayerKind kind, Pass pass, BatchShape batch,
                                     const LayoutOptions& options, bool writes_output, bool accumulates,
                                     std::int64_t gradient_bytes, std::int64_t window) {
  const PassOptions pass_options{kind, pass, batch, options, writes_output, accumulates};
  std::vector<TemplateKernel> lines;
  for (const TemplateKernel& line : kTemplateKernels)
    if (has_part(pass_options, line.part) && (line.exists == nullptr || line.exists(model.config)) &&
        (line.only == nullptr || line.only(batch)) && (contributes(pass) || !makes_weight_gradient(line)))
      lines.push_back(line);
  std::vector<Kernel> kernels;
  const bool overwrites = contributes(pass) && !accumulates;
  const std::int64_t chunk =
      kind == LayerKind::head ? loss_rows(batch, options.chunking) : mlp_rows(batch, options.chunking);
  for (auto line = lines.begin(); line != lines.end();) {
    if (!is_chunked(line->part)) {
      kernels.push_back(kernel_of(*line, model, batch, {batch.tokens(), 1}, gradient_bytes, accumulates, window));
      ++line;
      continue;
    }
    // Chunk after chunk goes through all lines that are cut.
    const auto end = std::find_if(line, lines.end(), [](const TemplateKernel& l) { return !is_chunked(l.part); });
    for (const Chunks& chunks : cut(batch.tokens(), chunk, overwrites))
      for (auto at = line; at != end; ++at)
        kernels.push_back(kernel_of(*at, model, batch, chunks, gradient_bytes, !chunks.is_first, window));
    line = end;
  }
  return kernels;
}

std::vector<std::int64_t> rows_of_experts(std::int64_t rows, std::int64_t groups, double skew) {
  const auto n = static_cast<double>(groups);
  skew = std::clamp(skew, 1.0, n);
  // Shares fall by a factor r: the first is (1 - r) / (1 - r^n), which falls as r grows.
  double low = 0, high = 1;
  const auto first = [n](double r) { return r == 1 ? 1 / n : (1 - r) / (1 - std::pow(r, n)); };
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (first(middle) > skew / n ? low : high) = middle;
  }
  const double ratio = skew == 1 ? 1 : low;
  std::vector<std::int64_t> parts;
  double share = skew / n, sum = 0;
  std::int64_t given = 0;
  for (std::int64_t e = 0; e < groups; ++e, share *= ratio) {
    sum += share;
    const std::int64_t until =
        e + 1 == groups ? rows : std::min<std::int64_t>(rows, std::llround(sum * static_cast<double>(rows)));
    parts.push_back(until - given);
    given = until;
  }
  return parts;
}

double kernel_flops(const std::vector<Kernel>& kernels) {
  double flops = 0;
  for (const Kernel& kernel : kernels) flops += static_cast<double>(kernel.count) * kernel.flops;
  return flops;
}

double model_flops(const Model& model, BatchShape whole_step) {
  const ModelConfig& config = model.config;
  const std::int64_t qkv = config.hidden * model.qkv_columns();
  // Of a mixture of experts those that are chosen, and the router.
  const auto behind_qkv_of = [&](LayerKind kind) {
    const auto [rows, intermediate] = mlp_shape(config, kind, 1);
    const std::int64_t router = kind == LayerKind::experts ? config.experts.count : 0;
    return config.hidden * (model.query_columns() + 3 * rows * intermediate + router);
  };
  const std::int64_t projection = config.vocabulary * config.hidden;
  // Products with a matrix: forward, its gradient, and that of its input.
  std::int64_t products = 0;
  std::map<std::int64_t, std::int64_t> attentions;  // by window
  for (const Layer& layer : model.layers) {
    if (layer.kind == LayerKind::embedding) continue;
    const std::int64_t own = layer.trains ? 2 : 1;
    if (layer.kind == LayerKind::head) {
      products += (own + (layer.index > model.lowest_trained ? 1 : 0)) * projection;
      continue;
    }
    const bool has_backward = layer.index >= model.lowest_trained;
    const std::int64_t behind_qkv = behind_qkv_of(layer.kind);
    products += own * (qkv + behind_qkv) + (has_backward ? behind_qkv : 0);
    if (layer.index > model.lowest_trained) products += qkv;
    attentions[layer.window] += has_backward ? 3 : 1;
  }
  double flops = 2.0 * static_cast<double>(products) * static_cast<double>(whole_step.tokens());
  for (const auto& [window, count] : attentions)
    flops += static_cast<double>(count) * attention_spec(config, whole_step, window).forward_flops();
  return flops;
}

}  // namespace penstock

// Times of everything that the CUDA templates are made of, on the device at hand: medians of event times over random
// data. Shapes: one layer of Qwen2.5-3B and 7B at 16384 tokens. Prints a table, writes JSON where asked to.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/event_times.h"
#include "exec/cuda/attention_own.h"
#include "exec/cuda/device_memory.h"
#include "exec/cuda/error.h"
#include "exec/cuda/optimizer.h"
#include "exec/cuda/templates.h"
#include "shared/files.h"
#include "shared/model/kernels.h"
#include "shared/model/library_workspace.h"
#include "tests/exec/kernel_cases.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kTokens = 16384;

ModelConfig qwen(const char* name, std::int64_t hidden, std::int64_t intermediate, std::int64_t heads,
                 std::int64_t kv_heads, std::int64_t vocabulary, bool tied) {
  ModelConfig c;
  c.name = name;
  c.family = ModelFamily::qwen2;
  c.hidden = hidden;
  c.intermediate = intermediate;
  c.decoder_layers = 1;  // all alike
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = 128;
  c.vocabulary = vocabulary;
  c.max_positions = 32768;
  c.tied_embeddings = tied;
  c.qkv_bias = true;
  c.rope_theta = 1e6;
  return c;
}

const ModelConfig kModels[] = {qwen("Qwen2.5-3B", 2048, 11008, 16, 2, 151936, true),
                               qwen("Qwen2.5-7B", 3584, 18944, 28, 4, 152064, false)};

class Bench {
 public:
  Stream stream() const { return times_.stream(); }

  /// Median of 9 runs; flops and bytes are of one run, 0 = not reported.
  double time(const std::string& group, const std::string& name, double flops, double bytes,
              const std::function<void()>& run) {
    const auto [ms, spread] = times_.of(9, run);
    report(group, name, ms, flops, bytes, spread);
    return ms;
  }

  void report(const std::string& group, const std::string& name, double ms, double flops, double bytes, double spread) {
    const double tflops = flops / ms * 1e-9, gigabytes = bytes / ms * 1e-6;
    fmt::print("{:<22} {:<44} {:>9.3f} ms", group, name, ms);
    if (flops > 0) fmt::print(" {:>7.1f} TFLOP/s", tflops);
    if (bytes > 0) fmt::print(" {:>7.0f} GB/s", gigabytes);
    fmt::print("  spread {:.1f} %\n", 100 * spread);
    std::fflush(stdout);
    results_.push_back({{"group", group},
                        {"name", name},
                        {"milliseconds", ms},
                        {"tflops", tflops},
                        {"gigabytes_per_second", gigabytes},
                        {"spread", spread}});
  }

  nlohmann::json results() const { return results_; }

 private:
  EventTimes times_;
  nlohmann::json results_ = nlohmann::json::array();
};

struct Projection {
  std::string name;
  std::int64_t outputs, inputs, rows;
};

std::vector<Projection> projections(const Model& m) {
  const ModelConfig& c = m.config;
  return {
      {"qkv", m.qkv_columns(), c.hidden, kTokens},        {"attention output", c.hidden, m.query_columns(), kTokens},
      {"gate up", 2 * c.intermediate, c.hidden, kTokens}, {"down", c.hidden, c.intermediate, kTokens},
      {"logits 1024", c.vocabulary, c.hidden, 1024},      {"logits 4096", c.vocabulary, c.hidden, 4096}};
}

/// x, y and w of the largest projection, shared by all.
struct MatmulMemory {
  DeviceMemory x, y, w, gradient, library;
  LibraryWorkspace workspace() const { return {library.data(), library.bytes()}; }

  explicit MatmulMemory(const Model& m) {
    std::int64_t widest_x = 0, widest_y = 0, widest_w = 0;
    for (const Projection& p : projections(m)) {
      widest_x = std::max(widest_x, p.rows * p.inputs);
      widest_y = std::max(widest_y, p.rows * p.outputs);
      widest_w = std::max(widest_w, p.outputs * p.inputs);
    }
    x = random_memory(std::max(widest_x, widest_y), 1);
    y = random_memory(std::max(widest_x, widest_y), 1);
    w = random_memory(widest_w, 0.02f);
    gradient = DeviceMemory(4 * widest_w);
    gradient.fill(0);
    library = DeviceMemory(kLibraryWorkspaceBytes);
  }
};

void bench_matmuls(Bench& bench, Matmul& matmul, const ModelConfig& config) {
  const Model m = make_model(config);
  const MatmulMemory memory(m);
  auto *x = memory.x.as<std::uint16_t>(), *y = memory.y.as<std::uint16_t>(), *w = memory.w.as<std::uint16_t>();
  for (const Projection& p : projections(m)) {
    const double flops =
        2.0 * static_cast<double>(p.rows) * static_cast<double>(p.outputs) * static_cast<double>(p.inputs);
    const std::string group = "matmul " + config.name.substr(8);
    bench.time(group, p.name + " forward", flops, 0, [&] {
      matmul.forward(x, w, nullptr, nullptr, y, p.rows, p.outputs, p.inputs, memory.workspace(), bench.stream());
    });
    if (p.name == "qkv")
      bench.time(group, p.name + " forward + bias", flops, 0, [&] {
        matmul.forward(x, w, w, nullptr, y, p.rows, p.outputs, p.inputs, memory.workspace(), bench.stream());
      });
    if (p.outputs == config.hidden)
      bench.time(group, p.name + " forward + residual", flops, 0, [&] {
        matmul.forward(x, w, nullptr, memory.x.as<std::uint16_t>(), y, p.rows, p.outputs, p.inputs, memory.workspace(),
                       bench.stream());
      });
    bench.time(group, p.name + " input gradient", flops, 0, [&] {
      matmul.input_gradient(x, w, y, p.rows, p.outputs, p.inputs, memory.workspace(), bench.stream());
    });
    for (const bool accumulates : {false, true})
      bench.time(group, p.name + (accumulates ? " weight gradient +=" : " weight gradient ="), flops, 0, [&] {
        matmul.weight_gradient(x, y, {memory.gradient.data(), ElementType::fp32, accumulates}, p.rows, p.outputs,
                               p.inputs, memory.workspace(), bench.stream());
      });
  }
}

/// All matmuls of a layer, forward and both gradients, without a pause; the rate of the last third.
void bench_sustained(Bench& bench, Matmul& matmul, const ModelConfig& config, double seconds) {
  const Model m = make_model(config);
  const MatmulMemory memory(m);
  auto *x = memory.x.as<std::uint16_t>(), *y = memory.y.as<std::uint16_t>(), *w = memory.w.as<std::uint16_t>();
  const std::vector<Projection> all = projections(m);
  double flops = 0, elapsed = 0, counted = 0, counted_flops = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (elapsed < seconds) {
    const double before = elapsed;
    flops = 0;
    for (int repeat = 0; repeat < 10; ++repeat)
      for (std::size_t i = 0; i < 4; ++i) {
        const Projection& p = all[i];
        matmul.forward(x, w, nullptr, nullptr, y, p.rows, p.outputs, p.inputs, memory.workspace(), bench.stream());
        matmul.input_gradient(x, w, y, p.rows, p.outputs, p.inputs, memory.workspace(), bench.stream());
        matmul.weight_gradient(x, y, {memory.gradient.data(), ElementType::fp32, true}, p.rows, p.outputs, p.inputs,
                               memory.workspace(), bench.stream());
        flops += 6.0 * static_cast<double>(p.rows) * static_cast<double>(p.outputs) * static_cast<double>(p.inputs);
      }
    synchronize_device();
    elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (before > seconds * 2 / 3) {
      counted += elapsed - before;
      counted_flops += flops;
    }
  }
  bench.report("sustained", "layer matmuls " + config.name, counted * 1e3, counted_flops, 0, 0);
}

/// Rows of documents of 50 to 2000 tokens, uniform in the logarithm, the last of a row cut: where each place's document
/// begins, and the squared lengths of a row's.
std::pair<DeviceMemory, double> random_documents(const AttentionSpec& s) {
  std::vector<std::int32_t> starts;
  double squares = 0;
  std::uint64_t next = 0;
  for (std::int64_t row = 0; row < s.sequences; ++row)
    for (std::int64_t place = 0; place < s.length;) {
      const double drawn = static_cast<double>(random_below(9, next++, 1'000'000)) / 1e6;
      const auto length =
          std::min(s.length - place, static_cast<std::int64_t>(std::llround(50 * std::pow(40.0, drawn))));
      starts.insert(starts.end(), static_cast<std::size_t>(length), static_cast<std::int32_t>(place));
      squares += static_cast<double>(length * length);
      place += length;
    }
  DeviceMemory memory(static_cast<std::int64_t>(4 * starts.size()));
  memory.upload(starts.data(), memory.bytes());
  return {std::move(memory), squares / static_cast<double>(s.sequences)};
}

void bench_attention(Bench& bench, Attention& attention, AttentionSpec s) {
  Model m;
  m.config.heads = s.heads;
  m.config.kv_heads = s.kv_heads;
  m.config.head_dim = s.head_dim;
  const std::int64_t context = s.tokens() * s.heads * s.head_dim;
  const DeviceMemory qkv = random_memory(s.tokens() * s.columns(), 1), d_context = random_memory(context, 1);
  DeviceMemory out(2 * context), lse(4 * s.sequences * s.heads * s.length), d_qkv(2 * s.tokens() * s.columns());
  const BatchShape batch{s.sequences, s.length};
  const AttentionPiece own = attention_backward_piece(m, batch);
  const std::string shape = fmt::format("{}x{} {}/{} d{}", s.sequences, s.length, s.heads, s.kv_heads, s.head_dim);
  const double flops = 2.0 * static_cast<double>(s.sequences * s.heads * s.head_dim) * static_cast<double>(s.length) *
                       static_cast<double>(s.length);
  DeviceMemory library(library_workspace_bytes(m, batch));
  bench.time("attention", shape + " forward", flops, 0, [&] {
    attention.forward(s, nullptr, qkv.as<std::uint16_t>(), {}, out.as<std::uint16_t>(), lse.as<float>(),
                      {library.data(), library.bytes()}, bench.stream());
  });
  AttentionBackward t{nullptr,         qkv.as<std::uint16_t>(),       out.as<std::uint16_t>(),
                      lse.as<float>(), d_context.as<std::uint16_t>(), d_qkv.as<std::uint16_t>()};
  const auto backward = [&](const char* what, const AttentionPiece& piece, bool deterministic) {
    bench.time("attention", fmt::format("{} backward {} {}x{}", shape, what, piece.sequences, piece.kv_groups),
               2.5 * flops, 0, [&] {
                 attention.backward(s, t, piece, deterministic, {library.data(), library.bytes()}, bench.stream());
               });
  };
  backward("pieces", own, true);
  // Larger pieces, to see what the budget costs; the bound on a piece's bytes grows with its size.
  const auto bytes_of = [&](const AttentionPiece& piece) {
    return own.bytes / (own.sequences * own.kv_groups) * piece.sequences * piece.kv_groups + (std::int64_t{64} << 20);
  };
  for (AttentionPiece piece = own; piece.sequences < s.sequences || piece.kv_groups < s.kv_heads;) {
    if (piece.kv_groups < s.kv_heads)
      piece.kv_groups = std::min(2 * piece.kv_groups, s.kv_heads);
    else
      piece.sequences = std::min(2 * piece.sequences, s.sequences);
    if (bytes_of(piece) > std::int64_t{16} << 30) break;
    if (bytes_of(piece) > library.bytes()) library = DeviceMemory(bytes_of(piece));
    backward(fmt::format("{:.1f} GiB", static_cast<double>(bytes_of(piece)) / (1 << 30)).c_str(), piece, true);
  }
  bench.time("attention", shape + " forward own", flops, 0, [&] {
    own_attention_forward(s, nullptr, qkv.as<std::uint16_t>(), {}, out.as<std::uint16_t>(), lse.as<float>(),
                          bench.stream());
  });
  bench.time("attention", shape + " backward own", 2.5 * flops, 0,
             [&] { own_attention_backward(s, t, bench.stream()); });
  if (s.length >= 4096) {
    const auto [starts, squared_lengths] = random_documents(s);
    AttentionSpec packed = s;
    packed.rows = BatchKind::packed;
    packed.squared_lengths = squared_lengths;
    t.document_starts = starts.as<std::int32_t>();
    bench.time("attention", shape + " packed forward", packed.forward_flops(), 0, [&] {
      own_attention_forward(s, t.document_starts, qkv.as<std::uint16_t>(), {}, out.as<std::uint16_t>(), lse.as<float>(),
                            bench.stream());
    });
    bench.time("attention", shape + " packed backward", 2.5 * packed.forward_flops(), 0,
               [&] { own_attention_backward(s, t, bench.stream()); });
    t.document_starts = nullptr;
  }
  const AttentionPiece unordered = attention_backward_piece(m, batch, false);
  if (unordered.bytes > library.bytes()) library = DeviceMemory(unordered.bytes);
  backward("unordered", unordered, false);
}

/// A chunk of a long sequence behind so many chunks of it, by the library and by our own kernels.
void bench_chunk(Bench& bench, Attention& attention, const ModelConfig& config, std::int64_t tokens, int before) {
  const Model m = make_model(config);
  BatchShape sequence{1, tokens * (before + 1)};
  sequence.chunk_tokens = tokens;
  const BatchShape chunk = chunk_of(sequence, before);
  const AttentionSpec s = attention_spec(config, chunk, 0);
  const std::int64_t context = s.tokens() * s.context_columns(), keys = kv_elements(m, s.keys());
  const DeviceMemory qkv = random_memory(s.tokens() * s.columns(), 1), d_context = random_memory(context, 1),
                     kv = random_memory(keys, 1);
  DeviceMemory out(2 * context), lse(4 * s.heads * s.length), d_qkv(2 * s.tokens() * s.columns()), d_kv(4 * keys),
      library(library_workspace_bytes(m, sequence));
  d_kv.fill(0);
  const ChunkKeys hand{kv.as<std::uint16_t>(), d_kv.as<float>(), true};
  const AttentionBackward t{nullptr,
                            qkv.as<std::uint16_t>(),
                            out.as<std::uint16_t>(),
                            lse.as<float>(),
                            d_context.as<std::uint16_t>(),
                            d_qkv.as<std::uint16_t>(),
                            hand};
  const std::string name = fmt::format("chunk {} behind {} {}/{} d{}", tokens, s.past, s.heads, s.kv_heads, s.head_dim);
  const LibraryWorkspace workspace{library.data(), library.bytes()};
  const double flops = s.forward_flops(), backward = kAttentionBackwardFlops * flops;
  bench.time("attention", name + " forward", flops, 0, [&] {
    attention.forward(s, nullptr, qkv.as<std::uint16_t>(), hand, out.as<std::uint16_t>(), lse.as<float>(), workspace,
                      bench.stream());
  });
  bench.time("attention", name + " backward", backward, 0,
             [&] { attention.backward(s, t, attention_backward_piece(m, chunk), true, workspace, bench.stream()); });
  bench.time("attention", name + " forward own", flops, 0, [&] {
    own_attention_forward(s, nullptr, qkv.as<std::uint16_t>(), hand, out.as<std::uint16_t>(), lse.as<float>(),
                          bench.stream());
  });
  bench.time("attention", name + " backward own", backward, 0, [&] { own_attention_backward(s, t, bench.stream()); });
}

void bench_elementwise(Bench& bench, const ModelConfig& config) {
  const Model m = make_model(config);
  const double tokens = static_cast<double>(kTokens), hidden = static_cast<double>(config.hidden),
               inter = static_cast<double>(config.intermediate);
  const std::int64_t wide = kTokens * 2 * config.intermediate;
  const DeviceMemory a = random_memory(wide, 1), weight = random_memory(config.hidden, 1);
  DeviceMemory b = random_memory(wide, 1), c = random_memory(wide, 1), d(2 * wide), target(4 * 2 * config.intermediate),
               partials(4 * kReductionRows * m.qkv_columns() + 4 * kReductionRows * config.hidden);
  auto *pa = a.as<std::uint16_t>(), *pb = b.as<std::uint16_t>(), *pc = c.as<std::uint16_t>(),
       *pd = d.as<std::uint16_t>();
  const std::string group = "elementwise " + config.name.substr(8);
  const GradientTarget gradient{target.data(), ElementType::fp32, false};
  bench.time(group, "rms norm forward", 0, 4 * tokens * hidden, [&] {
    rms_norm_forward(pa, weight.as<std::uint16_t>(), pd, kTokens, config.hidden, 1e-6f, bench.stream());
  });
  bench.time(group, "rms norm backward + residual", 0, 8 * tokens * hidden, [&] {
    rms_norm_backward(pa, weight.as<std::uint16_t>(), pb, pc, pd, gradient, partials.as<float>(), kTokens,
                      config.hidden, 1e-6f, bench.stream());
  });
  Rotary rotary = make_rotary(m, {kTokens / 1024, 1024});
  const double rotated = tokens * static_cast<double>((config.heads + config.kv_heads) * config.head_dim);
  bench.time(group, "rotary forward", 0, 4 * rotated, [&] { rotary_forward(rotary, pb, nullptr, bench.stream()); });
  bench.time(group, "rotary backward", 0, 4 * rotated,
             [&] { rotary_backward(rotary, pb, nullptr, {}, {}, nullptr, bench.stream()); });
  rotary.q_norm = rotary.k_norm = weight.as<std::uint16_t>();
  bench.time(group, "qk norm + rotary forward", 0, 6 * rotated,
             [&] { rotary_forward(rotary, pb, pd, bench.stream()); });
  bench.time(group, "qk norm + rotary backward", 0, 6 * rotated, [&] {
    rotary_backward(rotary, pb, pa, gradient, gradient.at(1024), partials.as<float>(), bench.stream());
  });
  bench.time(group, "bias gradient", 0, 2 * tokens * static_cast<double>(m.qkv_columns()),
             [&] { column_sum(pa, kTokens, m.qkv_columns(), gradient, partials.as<float>(), bench.stream()); });
  bench.time(group, "swiglu forward", 0, 6 * tokens * inter,
             [&] { swiglu_forward(pa, pd, kTokens, config.intermediate, bench.stream()); });
  DeviceMemory product(wide);
  bench.time(group, "swiglu backward", 0, 12 * tokens * inter, [&] {
    swiglu_backward(pa, pb, product.as<std::uint16_t>(), pd, kTokens, config.intermediate, bench.stream());
  });
}

/// One op bound to memory of its own.
class BoundOp {
 public:
  /// Tokens are drawn from the first `distinct` ids.
  BoundOp(const Model& m, LayerKind kind, Pass pass, BatchShape batch, LayoutOptions layout, std::int64_t distinct)
      : model_(m) {
    layout.library_bytes = library_workspace_bytes(m, batch);
    const int index = kind == LayerKind::embedding ? 0 : kind == LayerKind::decoder ? 1 : 2;
    const Layer& layer = m.layers[static_cast<std::size_t>(index)];
    const std::int64_t boundary = batch.tokens() * m.config.hidden;
    weights_ = random_memory(layer.state_elements, 0.02f);
    if (kind == LayerKind::head && m.config.tied_embeddings) tied_ = random_memory(m.layers[0].state_elements, 0.02f);
    input_ = random_memory(boundary, 1);
    output_ = random_memory(boundary, 1);
    kept_ = random_memory(kept_region(m, kind, batch, layout).bytes / 2, 1);
    recomputed_ = random_memory(recomputed_region(m, kind, batch, layout).bytes / 2, 1);
    workspace_ = DeviceMemory(workspace_region(m, kind, pass, batch, layout).bytes);
    if (pass == Pass::backward || pass == Pass::loss) gradient_ = DeviceMemory(4 * layer.gradient_elements);
    if (gradient_.bytes() > 0) gradient_.fill(0);
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < batch.sequences * (batch.sequence_length + 1); ++i)
      tokens.push_back(static_cast<std::int32_t>(
          random_below(7, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(distinct))));
    tokens_ = DeviceMemory(static_cast<std::int64_t>(4 * tokens.size()));
    tokens_.upload(tokens.data(), tokens_.bytes());
    loss_ = DeviceMemory(8);
    b.model = &model_;
    b.kind = kind;
    b.pass = pass;
    b.batch = batch;
    b.layout = layout;
    b.set(TemplateOperand::weights, weights_.as<std::uint16_t>());
    b.set(TemplateOperand::tied_weights, tied_.as<std::uint16_t>());
    b.set(TemplateOperand::tokens, tokens_.as<std::int32_t>());
    b.set(TemplateOperand::input, input_.as<std::uint16_t>());
    if (pass == Pass::forward) b.set(TemplateOperand::output, output_.as<std::uint16_t>());
    b.set(TemplateOperand::kept, kept_.data());
    b.set(TemplateOperand::recomputed, recomputed_.data());
    b.set(TemplateOperand::workspace, workspace_.data());
    b.set(TemplateOperand::output_gradient, output_.as<std::uint16_t>());
    b.set(TemplateOperand::input_gradient, output_.as<std::uint16_t>());
    b.set(TemplateOperand::gradient, gradient_.data());
    b.accumulates = true;
    b.set(TemplateOperand::loss, loss_.as<double>());
    b.loss_scale = 1.0 / static_cast<double>(batch.tokens());
  }

  TemplateBinding b;

 private:
  Model model_;
  DeviceMemory weights_, tied_, input_, output_, kept_, recomputed_, workspace_, gradient_, tokens_, loss_;
};

void bench_ops(Bench& bench, CudaTemplates& templates, const ModelConfig& config, BatchShape batch) {
  const Model m = make_model(config);
  const auto run = [&](const std::string& name, LayerKind kind, Pass pass, LayoutOptions layout, double bytes = 0,
                       std::int64_t distinct = 0) {
    const BoundOp op(m, kind, pass, batch, layout, distinct > 0 ? distinct : config.vocabulary);
    const double flops = kernel_flops(template_kernels(m, kind, pass, batch, layout));
    bench.time(fmt::format("op {} {}x{}", config.name.substr(8), batch.sequences, batch.sequence_length), name, flops,
               bytes, [&] { templates.run(op.b, bench.stream()); });
  };
  run("decoder forward, keep input", LayerKind::decoder, Pass::forward, {Keep::input, {}, 0});
  run("decoder recompute", LayerKind::decoder, Pass::recompute, {Keep::input, {}, 0});
  run("decoder recompute, attention kept", LayerKind::decoder, Pass::recompute, {Keep::input_attention, {}, 0});
  run("decoder backward", LayerKind::decoder, Pass::backward, {Keep::input, {}, 0});
  run("decoder forward, MLP chunks of 4096", LayerKind::decoder, Pass::forward, {Keep::input, {4096, 0}, 0});
  run("decoder backward, MLP chunks of 4096", LayerKind::decoder, Pass::backward, {Keep::input, {4096, 0}, 0});
  for (const std::int64_t rows : {1024, 2048, 4096, 8192})
    run(fmt::format("head, chunks of {}", rows), LayerKind::head, Pass::loss, {Keep::input, {0, rows}, 0});
  const double boundary = 2.0 * static_cast<double>(batch.tokens() * config.hidden);
  run("embedding forward", LayerKind::embedding, Pass::forward, {}, 2 * boundary);
  run("embedding backward, whole vocabulary", LayerKind::embedding, Pass::backward, {}, 5 * boundary);
  // As text by bytes has them, and the longest run there is. Rows are read; few gradients are written.
  run("embedding backward, 100 distinct tokens", LayerKind::embedding, Pass::backward, {}, boundary, 100);
  run("embedding backward, one distinct token", LayerKind::embedding, Pass::backward, {}, boundary, 1);
}

void bench_optimizer(Bench& bench, const ModelConfig& config) {
  const Model m = make_model(config);
  const std::int64_t n = m.layers[1].state_elements;
  const double count = static_cast<double>(n);
  DeviceMemory hi = random_memory(n, 0.02f), lo = random_memory(n, 1), gradient = random_memory(n, 1e-3f),
               sum = random_memory(2 * n, 1e-3f);
  DeviceMemory moment_m(4 * n), moment_v(4 * n), scratch(8 * norm_scratch_elements(n) + 8), total(8),
      device_scalars(sizeof(StepScalars));
  moment_m.fill(0);
  moment_v.fill(0);
  const StepScalars scalars = make_step_scalars({}, 1, 1.0, true);
  device_scalars.upload(&scalars, sizeof scalars);
  OptimizerStates states;
  states.weights = hi.as<std::uint16_t>();
  states.low_bits = lo.as<std::uint16_t>();
  states.m = moment_m.data();
  states.v = moment_v.data();
  const std::string group = "optimizer " + config.name.substr(8);
  const double ms = bench.time(group, "adamw, planes, bf16 gradient", 0, 26 * count, [&] {
    adamw_cuda(states, gradient.data(), ElementType::bf16, n, device_scalars.as<StepScalars>(), bench.stream());
  });
  fmt::print("{:<22} {:.2f} G parameters/s\n", group, count / ms * 1e-6);
  bench.time(group, "finish gradient fp32 -> bf16, norm", 0, 6 * count, [&] {
    finish_gradient_cuda(sum.data(), ElementType::fp32, nullptr, gradient.data(), ElementType::bf16, n,
                         scratch.as<double>(), total.as<double>(), bench.stream());
  });
  bench.time(group, "finish gradient without norm", 0, 6 * count, [&] {
    finish_gradient_cuda(sum.data(), ElementType::fp32, nullptr, gradient.data(), ElementType::bf16, n, nullptr,
                         nullptr, bench.stream());
  });
  bench.time(group, "norm of bf16", 0, 2 * count, [&] {
    sum_of_squares_cuda(gradient.data(), ElementType::bf16, n, scratch.as<double>(), total.as<double>(),
                        bench.stream());
  });
  bench.time(group, "device copy (ceiling)", 0, 8 * count, [&] {
    PENSTOCK_CUDA(cudaMemcpyAsync(moment_m.data(), moment_v.data(), static_cast<std::size_t>(4 * n),
                                  cudaMemcpyDeviceToDevice, bench.stream()));
  });
}

nlohmann::json choice_table(const std::vector<MatmulChoice>& choices) {
  nlohmann::json table = nlohmann::json::array();
  for (const MatmulChoice& c : choices)
    table.push_back({{"m", c.shape.m},
                     {"n", c.shape.n},
                     {"k", c.shape.k},
                     {"a_transposed", c.shape.a_transposed},
                     {"b_transposed", c.shape.b_transposed},
                     {"adds", c.shape.adds},
                     {"bias", c.shape.bias},
                     {"output", c.shape.output == ElementType::fp32 ? "fp32" : "bf16"},
                     {"algorithm", c.algorithm}});
  return table;
}

/// Every op of the table of kernel cases, on zeros.
void bench_cases(Bench& bench) {
  CudaTemplates templates;
  for (const KernelCase& c : kernel_cases())
    for (const CaseOp& op : case_ops(c)) {
      const BoundCase host(c, op);
      TemplateBinding b = host.binding();
      b.layout.library_bytes = library_workspace_bytes(*b.model, b.batch);
      std::vector<DeviceMemory> memory;
      for (const OperandUse& use : operand_uses(op.kind, op.pass)) {
        const std::int64_t bytes = b.bytes(use.operand);
        if (bytes == 0 || (use.use == Use::may_write && !op.writes_output)) continue;
        memory.emplace_back(bytes);
        memory.back().fill(0);
        b.set(use.operand, memory.back().data());
      }
      bench.time("case " + c.name, op.name(), kernel_flops(host.kernels()), 0,
                 [&] { templates.run(b, bench.stream()); });
    }
}

void bench_the_rest(Bench& bench, Matmul& matmul, double sustained) {
  for (const ModelConfig& config : kModels) {
    bench_optimizer(bench, config);
    bench_elementwise(bench, config);
    bench_matmuls(bench, matmul, config);
  }
  CudaTemplates templates;
  for (const ModelConfig& config : kModels) {
    bench_ops(bench, templates, config, {16, 1024});
    bench_ops(bench, templates, config, {4, 4096});
  }
  if (sustained > 0) bench_sustained(bench, matmul, kModels[1], sustained);
}

int run(int argc, char** argv) {
  CLI::App app("Times of the CUDA kernels, matmuls, attention and whole template ops on this device");
  std::string json_path;
  double sustained = 10;
  bool attention_alone = false;
  app.add_option("--json", json_path, "write the results here");
  app.add_flag("--attention", attention_alone, "attention alone");
  app.add_option("--sustained", sustained, "seconds of matmuls without a pause; 0: none");
  CLI11_PARSE(app, argc, argv);
  if (const std::string reason = why_no_device(); !reason.empty()) {
    fmt::print("skipped: needs a CUDA device: {}\n", reason);
    return 0;
  }
  fmt::print("{}, {}, cuBLASLt {}\n", device_description(), Attention::name(), Matmul::library_version());
  Bench bench;
  Matmul matmul;
  {
    Attention attention;
    for (const AttentionSpec& shape :
         {AttentionSpec{16, 1024, 28, 4, 128}, AttentionSpec{16, 1024, 16, 2, 128}, AttentionSpec{16, 1024, 14, 2, 64},
          AttentionSpec{4, 4096, 28, 4, 128}, AttentionSpec{2, 8192, 32, 8, 128}})
      bench_attention(bench, attention, shape);
    for (const int before : {0, 3, 7})
      for (const std::int64_t tokens : {4096, 16384}) bench_chunk(bench, attention, kModels[1], tokens, before);
  }
  if (!attention_alone) {
    bench_cases(bench);
    bench_the_rest(bench, matmul, sustained);
  }
  if (!json_path.empty())
    write_text_file(json_path, nlohmann::json{{"device", device_description()},
                                              {"attention", Attention::name()},
                                              {"cublaslt", Matmul::library_version()},
                                              {"results", bench.results()},
                                              {"matmul_choices", choice_table(matmul.choices())}}
                                   .dump(1));
  return 0;
}

}  // namespace
}  // namespace penstock::exec

int main(int argc, char** argv) {
  try {
    return penstock::exec::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_kernels_bench: {}\n", error.what());
    return 1;
  }
}

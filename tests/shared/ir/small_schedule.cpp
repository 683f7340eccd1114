#include "tests/shared/ir/small_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "shared/ir/graph.h"

namespace penstock {
namespace {

ModelConfig small_model(const SmallOptions& options) {
  ModelConfig config;
  config.name = "small";
  config.hidden = 64;
  config.intermediate = 128;
  config.decoder_layers = options.decoder_layers;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 32;
  config.vocabulary = 128;
  config.max_positions = 64;
  config.tied_embeddings = options.tied;
  return config;
}

constexpr Keep kKeep = Keep::input_attention;

class Writer {
 public:
  explicit Writer(const SmallOptions& options) : options_(options), model_(make_model(small_model(options))) {
    s_.policy = "small";
    s_.model = model_.config;
    s_.micro_batch = {2, 16};
    s_.micro_batches = options.micro_batches;
    s_.numerics.sum_on_host = options.sum_on_host;
    s_.tiers = {{TierKind::hbm, 0, 0}, {TierKind::dram, 0, 0}};
    s_.lanes = {{"compute", LaneKind::gpu_compute, 0},
                {"h2d", LaneKind::copy_h2d, 0},
                {"d2h", LaneKind::copy_d2h, 0},
                {"adam", LaneKind::host, 0},
                {"input", LaneKind::host, 0}};
  }

  Schedule take() {
    place_states();
    input();
    forward();
    loss();
    backward();
    update();
    for (const Buffer& buffer : s_.buffers) {
      std::int64_t& capacity = s_.tiers[static_cast<std::size_t>(buffer.tier)].capacity_bytes;
      capacity = std::max(capacity, buffer.offset_bytes + buffer.bytes);
    }
    if (options_.edges) derive_edges(s_);
    return std::move(s_);
  }

 private:
  enum { kCompute, kH2d, kD2h, kAdam, kInput };
  enum { kHbm, kDram };

  const Layer& layer(int l) const { return model_.layers[static_cast<std::size_t>(l)]; }
  int head() const { return model_.head_index(); }

  Access at(const std::string& name, int tier, std::int64_t bytes, Value value) {
    const auto [found, added] = buffers_.try_emplace(name, static_cast<int>(s_.buffers.size()));
    if (added) {
      std::int64_t end = 0;
      for (const Buffer& buffer : s_.buffers)
        if (buffer.tier == tier) end = std::max(end, buffer.offset_bytes + buffer.bytes);
      s_.buffers.push_back({name, tier, (end + 255) / 256 * 256, bytes});
    }
    return {found->second, 0, bytes, value};
  }

  int op(const std::string& name, int lane, int l, int m, Phase phase, Work work, std::vector<Access> reads,
         std::vector<Access> writes) {
    const int id = static_cast<int>(s_.ops.size());
    s_.ops.push_back({id, name, lane, l, m, phase, std::move(work), std::move(reads), std::move(writes)});
    return id;
  }
  void copy(const std::string& name, int lane, int l, Phase phase, const Access& from, const Access& to) {
    op(name, lane, l, -1, phase, CopyWork{{{from.bytes, 1}}}, {from}, {to});
  }

  // --- values and where they lie

  Access state(TensorKind tensor, int l, int version, std::int64_t element) {
    static const std::map<TensorKind, std::string> names{{TensorKind::weights, "hi"},
                                                         {TensorKind::low_bits, "lo"},
                                                         {TensorKind::moment_m, "m"},
                                                         {TensorKind::moment_v, "v"}};
    return at(fmt::format("{} {}", names.at(tensor), l), kDram, layer(l).state_elements * element,
              {tensor, l, version, -1});
  }
  std::vector<Access> states(int l, int version) {
    return {state(TensorKind::weights, l, version, 2), state(TensorKind::low_bits, l, version, 2),
            state(TensorKind::moment_m, l, version, 4), state(TensorKind::moment_v, l, version, 4)};
  }
  std::int64_t token_bytes() const { return 2 * s_.micro_batches * 17 * 4; }
  Access tokens(int tier) {
    return at(tier == kHbm ? "tokens" : "tokens host", tier, token_bytes(), {TensorKind::tokens});
  }
  Access slot(int number, int l) {
    std::int64_t most = 0;
    for (const Layer& other : model_.layers) most = std::max(most, other.state_elements * 2);
    Access access = at(fmt::format("slot {}", number), kHbm, most, {TensorKind::weights, l, 0, -1});
    access.bytes = layer(l).state_elements * 2;
    return access;
  }
  Access boundary(int l, int m) {
    return at(fmt::format("boundary {} #{}", l, m), kHbm, 2 * 16 * 64 * 2, {TensorKind::boundary, l, 0, m});
  }
  Access boundary_gradient(int l, int m) {
    return at(fmt::format("boundary gradient #{}", m), kHbm, 2 * 16 * 64 * 2, {TensorKind::boundary_gradient, l, 0, m});
  }
  Access kept(int l, int m) {
    return at(fmt::format("kept {} #{}", l, m), kHbm,
              kept_region(model_, LayerKind::decoder, s_.micro_batch, s_.layout(kKeep)).bytes,
              {TensorKind::kept, l, 0, m});
  }
  Access recomputed(int l, int m) {
    return at("recomputed", kHbm, recomputed_region(model_, LayerKind::decoder, s_.micro_batch, s_.layout(kKeep)).bytes,
              {TensorKind::recomputed, l, 0, m});
  }
  Access workspace() { return at("workspace", kHbm, 1 << 20, {TensorKind::workspace}); }
  Access sum(int l, int m, int tier) {
    return at(fmt::format("{} sum {}", tier == kHbm ? "gpu" : "host", l), tier, layer(l).gradient_elements * 4,
              {TensorKind::gradient_sum, l, 0, m});
  }
  Access part(int l, int m, int tier) {
    return at(fmt::format("{} part", tier == kHbm ? "gpu" : "host"), tier,
              model_.layers[static_cast<std::size_t>(largest())].gradient_elements * 2,
              {TensorKind::gradient_part, l, 0, m});
  }
  int largest() const {
    const auto by_gradient = [](const Layer& a, const Layer& b) { return a.gradient_elements < b.gradient_elements; };
    return std::max_element(model_.layers.begin(), model_.layers.end(), by_gradient)->index;
  }
  Access gradient(int l) {
    return at(fmt::format("gradient {}", l), kDram, layer(l).state_elements * 2, {TensorKind::gradient, l, 0, -1});
  }
  Access norm_partial(int l) { return at(fmt::format("norm {}", l), kDram, 8, {TensorKind::norm_partial, l, 0, -1}); }
  Access scalars() { return at("scalars", kDram, 64, {TensorKind::step_scalars}); }
  Access losses(int m, int tier) {
    const std::int64_t all = 8 * s_.micro_batches;
    Access access = at(tier == kHbm ? "losses" : "losses host", tier, all, {TensorKind::loss, head(), 0, m});
    if (m >= 0) access.offset_bytes = 8 * m, access.bytes = 8;
    return access;
  }

  // --- the step

  void place_states() {
    for (const Layer& l : model_.layers)
      for (const Access& access : states(l.index, 0)) s_.initial.push_back(access);
  }

  void input() {
    op("input", kInput, -1, -1, Phase::forward, InputWork{}, {}, {tokens(kDram)});
    copy("upload tokens", kH2d, -1, Phase::forward, tokens(kDram), tokens(kHbm));
  }

  int upload(int l, const char* why, Phase phase) {
    const int number = uploads_++ % 2;
    copy(fmt::format("upload {} {}", why, l), kH2d, l, phase, state(TensorKind::weights, l, 0, 2), slot(number, l));
    return number;
  }

  void forward() {
    for (int l = 0; l < head(); ++l) {
      const int number = upload(l, "forward", Phase::forward);
      for (int m = 0; m < s_.micro_batches; ++m) {
        const std::string name = fmt::format("forward {} #{}", l, m);
        if (l == 0)
          op(name, kCompute, l, m, Phase::forward, TemplateWork{LayerKind::embedding, Pass::forward, kKeep},
             {tokens(kHbm), slot(number, l)}, {boundary(1, m)});
        else
          op(name, kCompute, l, m, Phase::forward, TemplateWork{LayerKind::decoder, Pass::forward, kKeep},
             {slot(number, l), boundary(l, m)}, {boundary(l + 1, m), kept(l, m), workspace()});
      }
    }
  }

  /// Adds the gradient operands of a template op: a sum in HBM, or a part for the host.
  void add_gradient(int l, int m, std::vector<Access>& reads, std::vector<Access>& writes) {
    if (options_.sum_on_host) {
      writes.push_back(part(l, m, kHbm));
      return;
    }
    if (m > 0) reads.push_back(sum(l, m - 1, kHbm));
    writes.push_back(sum(l, m, kHbm));
  }

  void after_gradient(int l, int m) {
    if (options_.sum_on_host) {
      Access from = part(l, m, kHbm), to = part(l, m, kDram);
      from.bytes = to.bytes = layer(l).gradient_elements * 2;
      s_.ops.back().writes.back().bytes = from.bytes;
      copy(fmt::format("download part {} #{}", l, m), kD2h, l, Phase::backward, from, to);
      std::vector<Access> reads{to};
      if (m > 0) reads.push_back(sum(l, m - 1, kDram));
      op(fmt::format("accumulate {} #{}", l, m), kAdam, l, m, Phase::backward,
         AccumulateWork{layer(l).gradient_elements, 1}, reads, {sum(l, m, kDram)});
    } else if (m == s_.micro_batches - 1) {
      copy(fmt::format("download sum {}", l), kD2h, l, Phase::backward, sum(l, m, kHbm), sum(l, m, kDram));
    }
  }

  void loss() {
    const int l = head(), number = upload(l, "loss", Phase::loss);
    if (options_.tied) copy("upload tied 0", kH2d, 0, Phase::loss, state(TensorKind::weights, 0, 0, 2), slot(2, 0));
    for (int m = 0; m < s_.micro_batches; ++m) {
      std::vector<Access> reads{slot(number, l), tokens(kHbm), boundary(l, m)};
      std::vector<Access> writes{boundary_gradient(l, m), losses(m, kHbm), workspace()};
      if (options_.tied) reads.push_back(slot(2, 0));
      add_gradient(l, m, reads, writes);
      op(fmt::format("loss #{}", m), kCompute, l, m, Phase::loss, TemplateWork{LayerKind::head, Pass::loss, kKeep},
         reads, writes);
      after_gradient(l, m);
    }
    copy("download losses", kD2h, l, Phase::loss, losses(-1, kHbm), losses(-1, kDram));
  }

  void backward() {
    for (int l = head() - 1; l >= 1; --l) {
      const int number = upload(l, "backward", Phase::backward);
      for (int m = 0; m < s_.micro_batches; ++m) {
        op(fmt::format("recompute {} #{}", l, m), kCompute, l, m, Phase::backward,
           TemplateWork{LayerKind::decoder, Pass::recompute, kKeep}, {slot(number, l), boundary(l, m), kept(l, m)},
           {recomputed(l, m), workspace()});
        std::vector<Access> reads{slot(number, l), boundary(l, m), kept(l, m), recomputed(l, m),
                                  boundary_gradient(l + 1, m)};
        std::vector<Access> writes{boundary_gradient(l, m), workspace()};
        add_gradient(l, m, reads, writes);
        op(fmt::format("backward {} #{}", l, m), kCompute, l, m, Phase::backward,
           TemplateWork{LayerKind::decoder, Pass::backward, kKeep}, reads, writes);
        after_gradient(l, m);
      }
    }
    for (int m = 0; m < s_.micro_batches; ++m) {
      std::vector<Access> reads{tokens(kHbm), boundary_gradient(1, m)}, writes{workspace()};
      add_gradient(0, m, reads, writes);
      op(fmt::format("backward 0 #{}", m), kCompute, 0, m, Phase::backward,
         TemplateWork{LayerKind::embedding, Pass::backward, kKeep}, reads, writes);
      after_gradient(0, m);
    }
  }

  void update() {
    const int last = s_.micro_batches - 1;
    std::vector<Access> partials;
    for (const Layer& l : model_.layers) {
      std::vector<Access> reads{sum(l.index, last, kDram)};
      if (l.index == 0 && options_.tied) reads.push_back(sum(head(), last, kDram));
      op(fmt::format("finish {}", l.index), kAdam, l.index, -1, Phase::optimizer,
         FinishGradientWork{l.state_elements, 1}, reads, {gradient(l.index), norm_partial(l.index)});
      partials.push_back(norm_partial(l.index));
    }
    op("scalars", kAdam, -1, -1, Phase::optimizer, StepScalarsWork{}, partials, {scalars()});
    for (const Layer& l : model_.layers) {
      std::vector<Access> reads = states(l.index, 0);
      reads.push_back(gradient(l.index));
      reads.push_back(scalars());
      op(fmt::format("adam {}", l.index), kAdam, l.index, -1, Phase::optimizer, OptimizerWork{l.state_elements, 1},
         reads, states(l.index, 1));
    }
    op("report", kInput, -1, -1, Phase::optimizer, ReportWork{}, {losses(-1, kDram), scalars()}, {});
  }

  SmallOptions options_;
  Model model_;
  Schedule s_;
  std::map<std::string, int> buffers_;
  int uploads_ = 0;
};

bool overlap(const Schedule& schedule, const Access& a, const Access& b) {
  const Buffer& x = schedule.buffers[static_cast<std::size_t>(a.buffer)];
  const Buffer& y = schedule.buffers[static_cast<std::size_t>(b.buffer)];
  const std::int64_t from = x.offset_bytes + a.offset_bytes, other = y.offset_bytes + b.offset_bytes;
  return x.tier == y.tier && from < other + b.bytes && other < from + a.bytes;
}

bool conflict(const Schedule& schedule, const Op& a, const Op& b) {
  const auto any = [&](const std::vector<Access>& x, const std::vector<Access>& y) {
    for (const Access& one : x)
      for (const Access& two : y)
        if (overlap(schedule, one, two)) return true;
    return false;
  };
  return any(a.writes, b.writes) || any(a.writes, b.reads) || any(a.reads, b.writes);
}

}  // namespace

void derive_edges(Schedule& schedule) {
  schedule.edges.clear();
  for (const Op& a : schedule.ops)
    for (const Op& b : schedule.ops) {
      if (a.id < b.id && conflict(schedule, a, b)) schedule.edges.push_back({a.id, b.id, 0});
      if (a.id > b.id && conflict(schedule, a, b)) schedule.edges.push_back({a.id, b.id, 1});
    }
  for (std::size_t i = schedule.edges.size(); i-- > 0;)
    if (edge_implied(schedule, i)) schedule.edges.erase(schedule.edges.begin() + static_cast<std::ptrdiff_t>(i));
}

Schedule small_schedule(const SmallOptions& options) { return Writer(options).take(); }

Op& op_named(Schedule& schedule, std::string_view name) {
  for (Op& op : schedule.ops)
    if (op.name == name) return op;
  throw std::runtime_error(fmt::format("no op is called {}", name));
}

void remove_op(Schedule& schedule, std::string_view name) {
  const int id = op_named(schedule, name).id;
  schedule.ops.erase(schedule.ops.begin() + id);
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) schedule.ops[i].id = static_cast<int>(i);
  std::erase_if(schedule.edges, [&](const Edge& edge) { return edge.from == id || edge.to == id; });
  for (Edge& edge : schedule.edges) {
    edge.from -= edge.from > id;
    edge.to -= edge.to > id;
  }
}

void move_op(Schedule& schedule, std::string_view name, std::string_view before) {
  const Op moved = op_named(schedule, name);
  schedule.ops.erase(schedule.ops.begin() + moved.id);
  const auto place =
      std::find_if(schedule.ops.begin(), schedule.ops.end(), [&](const Op& op) { return op.name == before; });
  schedule.ops.insert(place, moved);
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) schedule.ops[i].id = static_cast<int>(i);
  derive_edges(schedule);
}

int edge_between(const Schedule& schedule, int from, int to, int distance) {
  const auto found = std::find(schedule.edges.begin(), schedule.edges.end(), Edge{from, to, distance});
  return found == schedule.edges.end() ? -1 : static_cast<int>(found - schedule.edges.begin());
}

}  // namespace penstock

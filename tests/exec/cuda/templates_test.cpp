// Every template op on the GPU against the same op on the host: same operands, relative error per tensor. Both round
// each tensor to bf16 once, but sum in another order, and an error of one rounding (2^-9) travels on; hence the
// tolerances.
#include "exec/cuda/templates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "exec/host/templates.h"

#include "gpu_test.h"
#include "shared/model/library_workspace.h"
#include "tests/exec/kernel_cases.h"

namespace penstock::exec {
namespace {

constexpr double kActivationTolerance = 1e-2;
constexpr double kGradientTolerance = 2e-2;

using Case = KernelCase;

/// The tiny ones have too few elements for tolerances on averages; they are for central differences.
std::vector<Case> averaging_cases() {
  std::vector<Case> cases = kernel_cases();
  std::erase_if(cases, [](const Case& c) { return c.differentiated; });
  return cases;
}

struct Span {
  std::string name;
  std::int64_t begin = 0, count = 0;
};

/// Groups of the flat gradient that are compared as one. The three biases are one: the keys' part nearly cancels.
std::vector<Span> gradient_groups(const Model& m, LayerKind kind) {
  const ModelConfig& c = m.config;
  if (kind == LayerKind::embedding) return {{"embedding", 0, c.vocabulary * c.hidden}};
  if (kind == LayerKind::head)
    return {{"final norm", m.head.final_norm, c.hidden}, {"projection", m.head.projection, c.vocabulary * c.hidden}};
  const DecoderOffsets& o = m.offsets(kind);
  std::vector<Span> groups = {{"input norm", o.input_norm, c.hidden},
                              {"qkv", o.qkv, m.qkv_columns() * c.hidden},
                              {"attention output", o.attention_output, c.hidden * m.query_columns()},
                              {"middle norm", o.middle_norm, c.hidden}};
  if (kind == LayerKind::experts) {
    groups.push_back({"router", o.router, c.experts.count * c.hidden});
    const std::int64_t last = c.experts.count - 1, matrix = c.hidden * c.experts.intermediate;
    groups.push_back({"experts' gate up", o.gate_up, last * o.gate_up_stride + 2 * matrix});
    groups.push_back({"experts' down", o.down, last * o.down_stride + matrix});
  } else {
    groups.push_back({"gate up", o.gate_up, 2 * c.intermediate * c.hidden});
    groups.push_back({"down", o.down, c.hidden * c.intermediate});
  }
  if (c.qkv_bias) groups.push_back({"qkv bias", o.qkv_bias, m.qkv_columns()});
  if (c.qk_norm) {
    groups.push_back({"q norm", o.q_norm, c.qk_norm_whole ? m.query_columns() : c.head_dim});
    groups.push_back({"k norm", o.k_norm, c.qk_norm_whole ? m.key_columns() : c.head_dim});
  }
  return groups;
}

std::vector<std::uint16_t> layer_weights(const Model& model, int index) {
  const Layer& layer = model.layers.at(static_cast<std::size_t>(index));
  std::vector<std::uint16_t> weights(static_cast<std::size_t>(layer.state_elements));
  for (const ParameterTensor& tensor : layer.tensors) {
    const bool norm = tensor.name.find("norm") != std::string::npos;
    const auto values = random_bf16(tensor.name, tensor.elements(), norm ? 1.0f : 0.0f,
                                    norm ? 0.1f : 1.0f / std::sqrt(static_cast<float>(model.config.hidden)));
    std::copy(values.begin(), values.end(), weights.begin() + tensor.offset);
  }
  return weights;
}

/// Results of one op on one side, as values.
struct Result {
  std::vector<std::uint16_t> output, input_gradient, kept, recomputed;
  std::vector<std::uint16_t> kv;  // of chunks
  std::vector<float> gradient, kv_gradient;
  std::vector<double> balance;  // behind the output, or the input's gradient, where experts are balanced
  double loss = 0, balance_loss = 0;

  bool operator==(const Result&) const = default;
};

std::vector<float> widened(const std::vector<std::byte>& bytes, ElementType type) {
  std::vector<float> values;
  if (type == ElementType::fp32) {
    values.resize(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    const auto* elements = reinterpret_cast<const std::uint16_t*>(bytes.data());
    for (std::size_t i = 0; i < bytes.size() / 2; ++i) values.push_back(widen_bf16(elements[i]));
  }
  return values;
}

/// An op's operands in host memory; `gpu` runs copies of them on the device with the results poisoned (NaN).
class OpUnderTest {
 public:
  OpUnderTest(const Case& c, LayerKind kind, Pass pass, Keep keep = Keep::everything) : model_(make_model(c.config)) {
    binding_.model = &model_;
    binding_.kind = kind;
    binding_.pass = pass;
    binding_.batch = chunk_of(c.batch, chunk_count(c.batch) - 1);
    binding_.layout = {keep, c.chunking, 0};
    binding_.gradient_type = c.gradient_type;
    binding_.loss_scale = 1.0 / static_cast<double>(c.batch.tokens());
    const BatchShape batch = binding_.batch;
    const int index = kind == LayerKind::embedding ? 0 : is_decoder(kind) ? 1 : 2;
    elements_ = batch.tokens() * c.config.hidden;
    weights = layer_weights(model_, index);
    tied_weights = layer_weights(model_, 0);
    boundary_elements_ = boundary_bytes(model_, batch) / 2;
    input = random_bf16("input", boundary_elements_, 0, 1);
    output_gradient = random_bf16("output gradient", boundary_elements_, 0, 1);
    if (balances(c.config))
      for (std::int64_t i = 0; i < balance_elements(c.config); ++i) {
        balance_of(input)[i] = static_cast<double>(i % 5 + 1);
        balance_of(output_gradient)[i] = 0.01 * static_cast<double>(i % 3);
      }
    rows_ = case_rows(c);
    tokens = rows_.tokens;
    trained_tokens_ = static_cast<double>(rows_.trained);
    for (std::int32_t& id : tokens) id %= static_cast<std::int32_t>(1 + c.config.vocabulary / 2);  // some more often
    kept.resize(static_cast<std::size_t>(kept_region(model_, kind, batch, binding_.layout).bytes / 2));
    recomputed.resize(static_cast<std::size_t>(recomputed_region(model_, kind, batch, binding_.layout).bytes / 2));
    if (batch.is_cut()) kv = random_bf16("kv", kv_elements(model_, batch.past + batch.tokens()), 0, 1);
    gradient_elements_ = model_.layers.at(static_cast<std::size_t>(index)).gradient_elements;
  }

  const Model& model() const { return model_; }
  const TemplateBinding& binding() const { return binding_; }
  bool has_gradient() const { return binding_.pass == Pass::backward || binding_.pass == Pass::loss; }

  Result host() {
    TemplateBinding b = binding_;
    std::vector<std::byte> workspace(
        static_cast<std::size_t>(workspace_region(model_, b.kind, b.pass, b.batch, b.layout).bytes));
    std::vector<std::byte> gradient(
        static_cast<std::size_t>(has_gradient() ? gradient_elements_ * element_bytes(b.gradient_type) : 0));
    Result result;
    result.output.resize(static_cast<std::size_t>(boundary_elements_));
    result.input_gradient.resize(static_cast<std::size_t>(boundary_elements_));
    std::array<double, 2> losses{};
    result.kept = kept;
    result.recomputed = recomputed;
    bind(b, weights.data(), tied_weights.data(), tokens.data(), input.data(), result.output.data(),
         reinterpret_cast<std::byte*>(result.kept.data()), reinterpret_cast<std::byte*>(result.recomputed.data()),
         workspace.data(), output_gradient.data(), result.input_gradient.data(), gradient.data(), losses.data());
    bind_packed(b, rows_.labels.data(), rows_.document_starts.data(), &trained_tokens_);
    result.kv = kv;
    result.kv_gradient.resize(kv.size());
    bind_chunk(b, result.kv.data(), result.kv_gradient.data());
    run_template_host(b);
    result.loss = losses[0];
    result.balance_loss = losses[1];
    take_balance(b.get<TemplateOperand::output>() != nullptr ? result.output : result.input_gradient, result);
    result.output.resize(static_cast<std::size_t>(elements_));
    result.input_gradient.resize(static_cast<std::size_t>(elements_));
    result.gradient = widened(gradient, b.gradient_type);
    return result;
  }

  /// `in_place`: output over input, input_gradient over output_gradient. `runs` > 1: the later ones add to the
  /// gradient.
  Result gpu(CudaTemplates& templates, bool in_place = false, int runs = 1) {
    TemplateBinding b = binding_;
    b.layout.library_bytes = library_workspace_bytes(model_, b.batch);
    DeviceMemory workspace(workspace_region(model_, b.kind, b.pass, b.batch, b.layout).bytes);
    DeviceMemory gradient(has_gradient() ? gradient_elements_ * element_bytes(b.gradient_type) : 0);
    DeviceMemory output(2 * boundary_elements_), input_gradient(2 * boundary_elements_), loss(16);
    const DeviceMemory d_weights = to_device(weights), d_tied = to_device(tied_weights), d_tokens = to_device(tokens);
    const DeviceMemory d_input = to_device(input), d_output_gradient = to_device(output_gradient);
    DeviceMemory d_kept = to_device(kept), d_recomputed = to_device(recomputed);
    for (DeviceMemory* memory : {&workspace, &gradient, &output, &input_gradient, &loss})
      if (memory->bytes() > 0) memory->fill(0xFF);
    if (b.pass == Pass::forward && d_kept.bytes() > 0) d_kept.fill(0xFF);
    if (b.pass == Pass::recompute && d_recomputed.bytes() > 0) d_recomputed.fill(0xFF);
    auto* out = (in_place ? d_input : output).as<std::uint16_t>();
    auto* d_in = (in_place ? d_output_gradient : input_gradient).as<std::uint16_t>();
    if (binding_.kind == LayerKind::embedding || binding_.pass == Pass::loss) {
      out = output.as<std::uint16_t>();
      d_in = input_gradient.as<std::uint16_t>();
    }
    bind(b, d_weights.as<std::uint16_t>(), d_tied.as<std::uint16_t>(), d_tokens.as<std::int32_t>(),
         d_input.as<std::uint16_t>(), out, d_kept.data(), d_recomputed.data(), workspace.data(),
         d_output_gradient.as<std::uint16_t>(), d_in, gradient.data(), loss.as<double>());
    const DeviceMemory d_labels = to_device(rows_.labels), d_starts = to_device(rows_.document_starts);
    const DeviceMemory d_trained = to_device(std::vector<double>{trained_tokens_});
    bind_packed(b, d_labels.as<std::int32_t>(), d_starts.as<std::int32_t>(), d_trained.as<double>());
    DeviceMemory d_kv = to_device(kv), d_kv_gradient(static_cast<std::int64_t>(4 * kv.size()));
    bind_chunk(b, d_kv.as<std::uint16_t>(), d_kv_gradient.as<float>());
    if (d_kv_gradient.bytes() > 0) d_kv_gradient.fill(0xFF);
    for (int run = 0; run < runs; ++run) {
      b.accumulates = run > 0;
      templates.run(b, nullptr);
    }
    synchronize_device();
    Result result;
    result.kept = to_host<std::uint16_t>(d_kept, static_cast<std::int64_t>(kept.size()));
    result.kv = to_host<std::uint16_t>(d_kv, static_cast<std::int64_t>(kv.size()));
    result.kv_gradient = to_host<float>(d_kv_gradient, static_cast<std::int64_t>(kv.size()));
    result.recomputed = to_host<std::uint16_t>(d_recomputed, static_cast<std::int64_t>(recomputed.size()));
    if (b.get<TemplateOperand::output>()) result.output.resize(static_cast<std::size_t>(boundary_elements_));
    read(result.output,
         b.get<TemplateOperand::output>() == out ? (out == d_input.as<std::uint16_t>() ? d_input : output) : output);
    if (b.get<TemplateOperand::input_gradient>())
      result.input_gradient.resize(static_cast<std::size_t>(boundary_elements_));
    read(result.input_gradient, d_in == d_output_gradient.as<std::uint16_t>() ? d_output_gradient : input_gradient);
    result.gradient = widened(to_host<std::byte>(gradient, gradient.bytes()), b.gradient_type);
    for (std::vector<std::uint16_t>* values : {&result.output, &result.input_gradient})
      if (!values->empty()) {
        take_balance(*values, result);
        values->resize(static_cast<std::size_t>(elements_));
      }
    if (b.get<TemplateOperand::loss>()) {
      result.loss = to_host<double>(loss, 2).front();
      if (balances(model_.config)) result.balance_loss = to_host<double>(loss, 2).back();
    }
    return result;
  }

  std::vector<std::uint16_t> weights, tied_weights, input, output_gradient, kept, recomputed, kv;
  std::vector<std::int32_t> tokens;
  bool block_recompute = false;

 private:
  static void read(std::vector<std::uint16_t>& values, const DeviceMemory& memory) {
    if (!values.empty()) memory.download(values.data(), static_cast<std::int64_t>(2 * values.size()));
  }

  double* balance_of(std::vector<std::uint16_t>& boundary) const {
    return reinterpret_cast<double*>(boundary.data() + balance_offset_bytes(model_.config, binding_.batch) / 2);
  }
  void take_balance(std::vector<std::uint16_t>& boundary, Result& result) const {
    if (!balances(model_.config) || boundary.empty()) return;
    const double* const from = balance_of(boundary);
    result.balance.assign(from, from + balance_elements(model_.config));
  }

  /// Gives the op the operands that its pass has, and no others.
  void bind(TemplateBinding& b, const std::uint16_t* w, const std::uint16_t* tied_w, const std::int32_t* t,
            const std::uint16_t* in, std::uint16_t* out, std::byte* k, std::byte* r, std::byte* work,
            const std::uint16_t* d_out, std::uint16_t* d_in, void* gradient, double* loss) const {
    const bool embedding = b.kind == LayerKind::embedding, head = b.kind == LayerKind::head;
    if (embedding || head) b.set(TemplateOperand::tokens, t);
    if (!(embedding && b.pass == Pass::backward)) b.set(TemplateOperand::weights, w);
    if (head && model_.config.tied_embeddings) b.set(TemplateOperand::tied_weights, tied_w);
    if (!embedding) b.set(TemplateOperand::input, in);
    if (b.pass == Pass::forward || (b.pass == Pass::recompute && block_recompute)) b.set(TemplateOperand::output, out);
    if (!kept.empty()) b.set(TemplateOperand::kept, k);
    if (!recomputed.empty() && b.pass != Pass::forward) b.set(TemplateOperand::recomputed, r);
    b.set(TemplateOperand::workspace, work);
    if (b.pass == Pass::backward) b.set(TemplateOperand::output_gradient, d_out);
    if (!embedding && has_gradient()) b.set(TemplateOperand::input_gradient, d_in);
    if (has_gradient()) b.set(TemplateOperand::gradient, gradient);
    if (head) b.set(TemplateOperand::loss, loss);
  }

  /// Tokens and labels of chunks begin with their own; `tokens` and rows_ have as many as the whole sequence.
  void bind_chunk(TemplateBinding& b, const std::uint16_t* keys, const float* gradient) const {
    if (!b.batch.is_cut() || !is_decoder(b.kind)) return;
    b.set(TemplateOperand::kv, keys);
    if (b.pass == Pass::backward) b.set(TemplateOperand::kv_gradient, gradient);
  }

  void bind_packed(TemplateBinding& b, const std::int32_t* labels, const std::int32_t* starts,
                   const double* trained_tokens) const {
    if (b.batch.kind != BatchKind::packed) return;
    b.set(TemplateOperand::labels, labels);
    b.set(TemplateOperand::document_starts, starts);
    b.set(TemplateOperand::trained_tokens, trained_tokens);
  }

  Model model_;
  TemplateBinding binding_;
  PackedRows rows_;
  double trained_tokens_ = 0;
  std::int64_t elements_ = 0, boundary_elements_ = 0, gradient_elements_ = 0;  // of rows; and what is behind them
};

void expect_gradients_close(const OpUnderTest& op, const Result& gpu, const Result& host) {
  std::vector<bool> covered(host.gradient.size());
  for (const Span& group : gradient_groups(op.model(), op.binding().kind)) {
    const auto begin = static_cast<std::size_t>(group.begin), end = begin + static_cast<std::size_t>(group.count);
    const std::vector<float> actual(gpu.gradient.begin() + group.begin,
                                    gpu.gradient.begin() + group.begin + group.count);
    const std::vector<float> expected(host.gradient.begin() + group.begin,
                                      host.gradient.begin() + group.begin + group.count);
    EXPECT_LT(relative_error(actual, expected), kGradientTolerance) << group.name;
    for (std::size_t i = begin; i < end; ++i) covered[i] = true;
  }
  for (std::size_t i = 0; i < covered.size(); ++i)
    if (!covered[i]) {
      ASSERT_EQ(gpu.gradient[i], 0.0f) << "padding at " << i;
    }
}

template <class T>
std::vector<T> values_of(const Field& field, const std::vector<std::uint16_t>& region) {
  std::vector<T> values(static_cast<std::size_t>(field.bytes) / sizeof(T));
  std::memcpy(values.data(), region.data() + field.offset_bytes / 2, static_cast<std::size_t>(field.bytes));
  return values;
}

/// Made from what the router chose.
bool is_routed(Activation activation) {
  return activation == Activation::expert_choice || activation == Activation::expert_weights ||
         activation == Activation::gate_up;
}

/// Each field of a region as values.
void expect_region_close(const Region& region, const std::vector<std::uint16_t>& gpu,
                         const std::vector<std::uint16_t>& host, bool routed = true) {
  for (const Field& field : region.fields) {
    SCOPED_TRACE("activation " + std::to_string(static_cast<int>(field.activation)));
    if (!routed && is_routed(field.activation)) continue;
    switch (field.activation) {
      case Activation::lse:
      case Activation::router_logits:
      case Activation::expert_weights:
        EXPECT_LT(relative_error(values_of<float>(field, gpu), values_of<float>(field, host)), kActivationTolerance);
        break;
      case Activation::expert_choice:
        EXPECT_EQ(values_of<std::int32_t>(field, gpu), values_of<std::int32_t>(field, host));
        break;
      default:
        EXPECT_LT(relative_error(values_of<std::uint16_t>(field, gpu), values_of<std::uint16_t>(field, host)),
                  kActivationTolerance);
    }
  }
}

class CudaTemplatesTest : public GpuTestWith<Case> {
 protected:
  LayerKind decoder() const { return decoder_kind(GetParam().config, 0); }
};
INSTANTIATE_TEST_SUITE_P(Cases, CudaTemplatesTest, ::testing::ValuesIn(averaging_cases()),
                         [](const auto& parameter) { return parameter.param.name; });

TEST_P(CudaTemplatesTest, DecoderForwardMatchesHost) {
  CudaTemplates templates;
  OpUnderTest op(GetParam(), decoder(), Pass::forward);
  const Result host = op.host(), gpu = op.gpu(templates);
  // Where two experts are nearly as good, the last bits of what comes before decide between them.
  const bool routed = decoder() == LayerKind::decoder;
  if (routed) {
    EXPECT_LT(relative_error(gpu.output, host.output), kActivationTolerance);
  }
  expect_region_close(kept_region(op.model(), decoder(), op.binding().batch, op.binding().layout), gpu.kept, host.kept,
                      routed);
  EXPECT_EQ(op.gpu(templates).kept, gpu.kept);
  if (!op.kv.empty()) {
    EXPECT_LT(relative_error(gpu.kv, host.kv), kActivationTolerance);
  }
  EXPECT_EQ(op.gpu(templates, true).output, gpu.output);
  ASSERT_EQ(gpu.balance.size(), host.balance.size());
  double choices = 0, host_choices = 0;
  for (std::size_t i = 0; i < gpu.balance.size(); ++i) {
    if (i < gpu.balance.size() / 2) {
      choices += gpu.balance[i], host_choices += host.balance[i];
    } else {
      EXPECT_NEAR(gpu.balance[i], host.balance[i], kActivationTolerance * host.balance[i]) << i;
    }
  }
  EXPECT_EQ(choices, host_choices);
}

// From the same middle on, so that routers meet the same values.
TEST_P(CudaTemplatesTest, MlpMatchesHost) {
  CudaTemplates templates;
  const Result made = OpUnderTest(GetParam(), decoder(), Pass::forward, Keep::input_attention).host();
  OpUnderTest op(GetParam(), decoder(), Pass::recompute, Keep::input_attention);
  op.kept = made.kept;
  op.kv = made.kv;
  op.block_recompute = true;
  const Result host = op.host(), gpu = op.gpu(templates);
  EXPECT_LT(relative_error(gpu.output, host.output), kActivationTolerance);
  expect_region_close(recomputed_region(op.model(), decoder(), op.binding().batch, op.binding().layout), gpu.recomputed,
                      host.recomputed);
}

/// Of a chunk, whose queries are kept, and whose keys and values are handed on.
void expect_kept_apart(const OpUnderTest& op, const Region& kept, const std::uint16_t* qkv, const Result& reference) {
  const Model& model = op.model();
  const std::int64_t queries = model.query_columns(), keys = 2 * model.key_columns();
  const std::uint16_t* const query = reference.kept.data() + kept.find(Activation::queries)->offset_bytes / 2;
  const std::uint16_t* const own = reference.kv.data() + kv_elements(model, op.binding().batch.past);
  for (std::int64_t token = 0; token < op.binding().batch.tokens(); ++token) {
    const std::uint16_t* const row = qkv + token * model.qkv_columns();
    EXPECT_TRUE(std::equal(row, row + queries, query + token * queries)) << "queries of " << token;
    EXPECT_TRUE(std::equal(row + queries, row + queries + keys, own + token * keys)) << "keys of " << token;
  }
}

// Whatever is kept, forward gives the same output, and a recompute the bits that forward had.
TEST_P(CudaTemplatesTest, RecomputeGivesTheBitsOfForward) {
  CudaTemplates templates;
  OpUnderTest whole(GetParam(), decoder(), Pass::forward);
  const Result reference = whole.gpu(templates);
  const Region everything = kept_region(whole.model(), decoder(), whole.binding().batch, whole.binding().layout);
  for (const Keep keep : {Keep::input, Keep::input_context, Keep::input_attention}) {
    OpUnderTest forward(GetParam(), decoder(), Pass::forward, keep);
    const Result kept = forward.gpu(templates);
    EXPECT_EQ(kept.output, reference.output);
    OpUnderTest recompute(GetParam(), decoder(), Pass::recompute, keep);
    recompute.kept = kept.kept;
    recompute.kv = kept.kv;
    recompute.block_recompute = true;
    const Result again = recompute.gpu(templates);
    EXPECT_EQ(again.output, reference.output);
    for (const Field& field :
         recomputed_region(recompute.model(), decoder(), recompute.binding().batch, recompute.binding().layout)
             .fields) {
      if (field.activation == Activation::qkv && recompute.binding().batch.is_cut()) {
        expect_kept_apart(recompute, everything, again.recomputed.data() + field.offset_bytes / 2, reference);
        continue;
      }
      const Field* const original = everything.find(field.activation);
      ASSERT_NE(original, nullptr);
      EXPECT_TRUE(std::equal(again.recomputed.begin() + field.offset_bytes / 2,
                             again.recomputed.begin() + (field.offset_bytes + field.bytes) / 2,
                             reference.kept.begin() + original->offset_bytes / 2))
          << "keep " << static_cast<int>(keep) << " activation " << static_cast<int>(field.activation);
    }
  }
}

TEST_P(CudaTemplatesTest, DecoderBackwardMatchesHost) {
  CudaTemplates templates;
  OpUnderTest op(GetParam(), decoder(), Pass::backward);
  const Result made = OpUnderTest(GetParam(), decoder(), Pass::forward).host();
  op.kept = made.kept;
  op.kv = made.kv;
  const Result host = op.host(), gpu = op.gpu(templates);
  EXPECT_LT(relative_error(gpu.input_gradient, host.input_gradient), kGradientTolerance);
  EXPECT_EQ(gpu.balance, host.balance);  // passed on
  if (!op.kv.empty()) {
    EXPECT_LT(relative_error(gpu.kv_gradient, host.kv_gradient), kGradientTolerance);
    EXPECT_EQ(op.gpu(templates).kv_gradient, gpu.kv_gradient);
  }
  expect_gradients_close(op, gpu, host);
  const Result in_place = op.gpu(templates, true);
  EXPECT_EQ(in_place.input_gradient, gpu.input_gradient);
  EXPECT_EQ(in_place.gradient, gpu.gradient);
  std::vector<float> twice = gpu.gradient;
  for (float& value : twice) value *= 2;
  EXPECT_LT(relative_error(op.gpu(templates, false, 2).gradient, twice),
            op.binding().gradient_type == ElementType::fp32 ? 1e-6 : 5e-3);
}

// Backward from the input alone: the chunked MLP makes gate_up again itself, with the same bits.
TEST_P(CudaTemplatesTest, BackwardDoesNotDependOnWhatWasKept) {
  CudaTemplates templates;
  OpUnderTest whole(GetParam(), decoder(), Pass::backward);
  const Result made = OpUnderTest(GetParam(), decoder(), Pass::forward).gpu(templates);
  whole.kept = made.kept;
  whole.kv = made.kv;
  const Result reference = whole.gpu(templates);
  OpUnderTest recompute(GetParam(), decoder(), Pass::recompute, Keep::input);
  OpUnderTest op(GetParam(), decoder(), Pass::backward, Keep::input);
  recompute.kv = op.kv = made.kv;
  op.recomputed = recompute.gpu(templates).recomputed;
  const Result result = op.gpu(templates);
  EXPECT_EQ(result.input_gradient, reference.input_gradient);
  EXPECT_EQ(result.gradient, reference.gradient);
}

TEST_P(CudaTemplatesTest, HeadMatchesHost) {
  CudaTemplates templates;
  OpUnderTest op(GetParam(), LayerKind::head, Pass::loss);
  const Result host = op.host(), gpu = op.gpu(templates);
  EXPECT_NEAR(gpu.loss, host.loss, 2e-3 * host.loss);
  EXPECT_NEAR(gpu.balance_loss, host.balance_loss, 1e-12 * host.balance_loss);
  ASSERT_EQ(gpu.balance.size(), host.balance.size());
  for (std::size_t i = 0; i < gpu.balance.size(); ++i)
    EXPECT_NEAR(gpu.balance[i], host.balance[i], 1e-12 * host.balance[i]) << i;
  EXPECT_LT(relative_error(gpu.input_gradient, host.input_gradient), kGradientTolerance);
  expect_gradients_close(op, gpu, host);
  const Result again = op.gpu(templates);
  EXPECT_EQ(again.loss, gpu.loss);
  EXPECT_EQ(again.gradient, gpu.gradient);
}

TEST_P(CudaTemplatesTest, EmbeddingMatchesHost) {
  CudaTemplates templates;
  OpUnderTest forward(GetParam(), LayerKind::embedding, Pass::forward);
  EXPECT_EQ(forward.gpu(templates).output, forward.host().output);  // a copy
  OpUnderTest backward(GetParam(), LayerKind::embedding, Pass::backward);
  const Result host = backward.host(), gpu = backward.gpu(templates);
  EXPECT_LT(relative_error(gpu.gradient, host.gradient), GetParam().gradient_type == ElementType::fp32 ? 1e-6 : 5e-3);
  EXPECT_EQ(backward.gpu(templates).gradient, gpu.gradient);
}

using CudaTemplatesErrors = GpuTest;

TEST_F(CudaTemplatesErrors, MissingOperandsAndPassesAreNamed) {
  CudaTemplates templates;
  const Model model = make_model(kernel_cases().front().config);
  TemplateBinding binding;
  binding.model = &model;
  binding.batch = {1, 1};
  EXPECT_THROW(templates.run(binding, nullptr), std::logic_error);
  binding.kind = LayerKind::head;
  binding.pass = Pass::forward;
  EXPECT_THROW(templates.run(binding, nullptr), std::logic_error);
}

}  // namespace
}  // namespace penstock::exec

#include "exec/cuda/attention.h"

// The frontend's own JSON library would be a second nlohmann-json in the program; nothing here reads graphs as text.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "exec/cuda/attention_own.h"
#include "exec/cuda/attention_parts.h"
#include "exec/cuda/cudnn_library.h"
#include "exec/cuda/error.h"
#include "shared/standard_streams.h"

namespace penstock::exec {
namespace {

namespace fe = cudnn_frontend;

void check_cudnn(cudnnStatus_t status, const char* call, int line) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw_library_error("cuDNN", static_cast<int>(status), cudnnGetErrorString(status), call, __FILE__, line);
}
#define PENSTOCK_CUDNN(call) check_cudnn((call), #call, __LINE__)

void check_graph(fe::error_t error, const char* what, int line) {
  if (error.is_bad())
    throw_library_error("cuDNN", static_cast<int>(error.get_code()), error.get_message().c_str(), what, __FILE__, line);
}

/// One call's part of the whole: `heads` and `kv_heads` of one call, strides from the whole. Of a chunk `keys` of its
/// keys, all of which its queries see unless they are `causal`: then the last query sees the last key.
struct Call {
  std::int64_t sequences, heads, kv_heads, keys;
  bool causal = true;
  bool queries_apart = false;  // dense, not among keys and values

  auto operator<=>(const Call&) const = default;
};

enum Tensor : std::int64_t { kQ = 1, kK, kV, kO, kStats, kDO, kDQ, kDK, kDV };

struct Plan {
  fe::graph::Graph graph;
  std::int64_t workspace = 0;
  std::string refusal;  // why the library does not take the call; empty: it does
};

class GraphBuilder {
 public:
  GraphBuilder(fe::graph::Graph& graph, const AttentionSpec& whole, const Call& call)
      : graph_(graph), whole_(whole), call_(call) {
    graph_.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  using Handle = std::shared_ptr<fe::graph::Tensor_attributes>;

  Handle input(Tensor uid) { return shape(graph_.tensor(fe::graph::Tensor_attributes()), uid); }
  void output(const Handle& tensor, Tensor uid) { shape(tensor, uid)->set_output(true); }
  float scale() const { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(whole_.head_dim))); }

 private:
  Handle shape(const Handle& tensor, Tensor uid) const {
    const std::int64_t d = whole_.head_dim;
    const bool keys = uid == kK || uid == kV || uid == kDK || uid == kDV;
    const bool packed = keys || uid == kQ || uid == kDQ;
    const std::int64_t heads = keys ? call_.kv_heads : call_.heads;
    tensor->set_uid(uid);
    if (keys && whole_.is_chunk) {
      // Keys and values lie apart; what calls make of their gradient lies dense, of this call's heads.
      const std::int64_t row = uid == kK || uid == kV ? 2 * whole_.kv_heads * d : heads * d;
      tensor->set_data_type(fe::DataType_t::BFLOAT16);
      tensor->set_dim({1, heads, call_.keys, d});
      tensor->set_stride({call_.keys * row, d, row, 1});
      return tensor;
    }
    if (uid == kStats) {
      tensor->set_data_type(fe::DataType_t::FLOAT);
      tensor->set_dim({call_.sequences, heads, whole_.length, 1});
      tensor->set_stride({whole_.heads * whole_.length, whole_.length, 1, 1});
    } else {
      const bool dense = !packed || (uid == kQ && call_.queries_apart);
      const std::int64_t row = dense ? whole_.heads * d : whole_.columns();
      tensor->set_data_type(fe::DataType_t::BFLOAT16);
      tensor->set_dim({call_.sequences, heads, whole_.length, d});
      tensor->set_stride({whole_.length * row, d, row, 1});
    }
    return tensor;
  }

  fe::graph::Graph& graph_;
  AttentionSpec whole_;
  Call call_;
};

/// What is wrong with the device, and not with the graph.
bool is_broken(fe::error_code_t code) {
  return code == fe::error_code_t::CUDA_API_FAILED || code == fe::error_code_t::INVALID_CUDA_DEVICE ||
         code == fe::error_code_t::HANDLE_ERROR;
}

void finish_plan(Plan& plan, cudnnHandle_t handle, const char* what) {
  fe::error_t error = plan.graph.build(handle, {fe::HeurMode_t::A});
  if (error.is_good()) error = plan.graph.get_workspace_size(plan.workspace);
  if (is_broken(error.get_code())) check_graph(error, what, __LINE__);
  if (error.is_bad()) plan.refusal = error.get_message();
}

/// As many keys as queries: the alignment is the same either way.
template <typename Options>
void set_mask(Options& options, const AttentionSpec& whole, const Call& call) {
  const bool longer = call.keys > whole.length;
  options.set_diagonal_alignment(longer ? fe::DiagonalAlignment_t::BOTTOM_RIGHT : fe::DiagonalAlignment_t::TOP_LEFT);
  if (call.causal) options.set_diagonal_band_right_bound(0);
}

std::unique_ptr<Plan> forward_plan(const AttentionSpec& whole, const Call& call, cudnnHandle_t handle) {
  auto plan = std::make_unique<Plan>();
  GraphBuilder builder(plan->graph, whole, call);
  auto options =
      fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true).set_attn_scale(builder.scale());
  set_mask(options, whole, call);
  options.set_implementation(fe::AttentionImplementation_t::COMPOSITE);
  const auto outputs = plan->graph.sdpa(builder.input(kQ), builder.input(kK), builder.input(kV), options);
  builder.output(outputs[0], kO);
  builder.output(outputs[1], kStats);
  finish_plan(*plan, handle, "attention forward graph");
  return plan;
}

std::unique_ptr<Plan> backward_plan(const AttentionSpec& whole, const Call& call, bool deterministic,
                                    cudnnHandle_t handle) {
  auto plan = std::make_unique<Plan>();
  GraphBuilder builder(plan->graph, whole, call);
  auto options = fe::graph::SDPA_backward_attributes().set_name("attention backward").set_attn_scale(builder.scale());
  set_mask(options, whole, call);
  options.set_deterministic_algorithm(deterministic);
  const auto q = builder.input(kQ), k = builder.input(kK), v = builder.input(kV), o = builder.input(kO);
  const auto d_o = builder.input(kDO), stats = builder.input(kStats);
  const auto gradients = plan->graph.sdpa_backward(q, k, v, o, d_o, stats, options);
  builder.output(gradients[0], kDQ);
  builder.output(gradients[1], kDK);
  builder.output(gradients[2], kDV);
  finish_plan(*plan, handle, "attention backward graph");
  return plan;
}

/// Short rows are cheap everywhere, and the library's support for them is patchy: those are for our own kernels, as are
/// windows, and everything where the library is missing.
bool supported(const AttentionSpec& shape) {
  return cudnn_missing().empty() && shape.window == 0 && shape.head_dim % 8 == 0 && shape.head_dim <= 128 &&
         shape.length >= 64;
}
/// Of a chunk; what attention_backward_piece says of backward.
bool is_aligned(const AttentionSpec& shape) {
  return shape.length % 64 == 0 && shape.past % 64 == 0 && shape.length >= 128;
}

}  // namespace

struct Attention::Plans {
  // the call, length, heads and kv heads of the whole, head dim, whether it is a chunk, 0 forward 1 backward 2
  // deterministic
  using Key = std::tuple<Call, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, int>;

  cudnnHandle_t handle = nullptr;
  Stream handle_stream = nullptr;  // as in a new handle
  std::map<Key, std::unique_ptr<Plan>> plans;
  std::set<const Plan*> told;

  ~Plans() {
    plans.clear();
    if (handle) cudnnDestroy(handle);
  }

  Plan& find(const AttentionSpec& whole, const Call& call, int kind) {
    const Key key{call, whole.length, whole.heads, whole.kv_heads, whole.head_dim, whole.is_chunk, kind};
    auto& plan = plans[key];
    if (!plan) plan = kind == 0 ? forward_plan(whole, call, handle) : backward_plan(whole, call, kind == 2, handle);
    return *plan;
  }

  /// Whether the library computes the call within the workspace; what cards and versions take, and how much they want
  /// for it, differs. The first refusal of a call is said.
  bool takes(const AttentionSpec& whole, const Call& call, int kind, LibraryWorkspace workspace) {
    Plan& plan = find(whole, call, kind);
    std::string why = plan.refusal;
    if (why.empty() && plan.workspace > workspace.bytes)
      why = "it wants a workspace of " + std::to_string(plan.workspace) + " bytes, the schedule gives " +
            std::to_string(workspace.bytes);
    if (why.empty()) return true;
    if (told.insert(&plan).second)
      tell("penstock-exec: note: attention " + std::string(kind == 0 ? "forward" : "backward") + " of " +
           std::to_string(call.sequences) + " x " + std::to_string(whole.length) + " tokens, " +
           std::to_string(call.heads) + " heads of " + std::to_string(whole.head_dim) + ", is not for " + name() +
           " here (" + why +
           "): kernels of our own compute it, slower than a prediction says that was not calibrated here\n");
    return false;
  }

  void execute(Plan& plan, std::unordered_map<std::int64_t, void*>& pointers, LibraryWorkspace workspace,
               Stream stream) {
    if (stream != handle_stream) PENSTOCK_CUDNN(cudnnSetStream(handle, stream));
    handle_stream = stream;
    check_graph(plan.graph.execute(handle, pointers, workspace.data), "attention", __LINE__);
  }
};

Attention::Attention() : plans_(std::make_unique<Plans>()) {
  if (cudnn_missing().empty()) PENSTOCK_CUDNN(cudnnCreate(&plans_->handle));
}
Attention::~Attention() = default;

const char* Attention::name() {
  static const std::string text = []() -> std::string {
    if (!cudnn_missing().empty()) return "own";
    const std::size_t version = cudnnGetVersion();
    return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  }();
  return text.c_str();
}

std::string Attention::note() { return cudnn_missing().empty() ? "" : own_attention_note(cudnn_missing()); }

void Attention::forward(const AttentionSpec& shape, const std::int32_t* document_starts, const std::uint16_t* qkv,
                        const ChunkKeys& keys, std::uint16_t* context, float* lse, LibraryWorkspace workspace,
                        Stream stream) {
  if (document_starts != nullptr || !supported(shape))
    return own_attention_forward(shape, document_starts, qkv, keys, context, lse, stream);
  if (shape.is_chunk && !is_aligned(shape))
    return own_attention_forward(shape, document_starts, qkv, keys, context, lse, stream);
  const Call call{shape.sequences, shape.heads, shape.kv_heads, shape.keys()};
  if (!plans_->takes(shape, call, 0, workspace))
    return own_attention_forward(shape, document_starts, qkv, keys, context, lse, stream);
  const std::int64_t d = shape.head_dim;
  auto* packed = const_cast<std::uint16_t*>(qkv);  // the graph's map of pointers knows no const
  auto* first_key = shape.is_chunk ? const_cast<std::uint16_t*>(keys.kv) : packed + shape.heads * d;
  std::unordered_map<std::int64_t, void*> pointers{
      {kQ, packed}, {kK, first_key}, {kV, first_key + shape.kv_heads * d}, {kO, context}, {kStats, lse}};
  plans_->execute(plans_->find(shape, call, 0), pointers, workspace, stream);
}

/// Groups of heads one after the other, of each the keys chunk by chunk: what the calls make, bf16, is added up in fp32.
void Attention::backward_of_chunk(const AttentionSpec& shape, const AttentionBackward& t, const AttentionPiece& piece,
                                  bool deterministic, LibraryWorkspace workspace, Stream stream) {
  const std::int64_t d = shape.head_dim, n = shape.length, ratio = shape.heads / shape.kv_heads;
  const std::int64_t groups = piece.kv_groups, heads = groups * ratio, kv_row = 2 * shape.kv_heads * d;
  // At the end of the workspace: the sum of the queries' gradient, and a call's gradients of keys and of values.
  const std::int64_t sums = n * heads * d, parts = piece.keys * groups * d;
  auto* const sum = reinterpret_cast<float*>(workspace.data + workspace.bytes - 4 * sums - 4 * parts);
  auto* const d_key = reinterpret_cast<std::uint16_t*>(sum + sums);
  auto* const d_value = d_key + parts;
  const LibraryWorkspace rest{workspace.data, workspace.bytes - 4 * sums - 4 * parts};
  const int kind = deterministic ? 2 : 1;
  const bool apart = t.keys.queries != nullptr;
  auto* const queries = const_cast<std::uint16_t*>(apart ? t.keys.queries : t.qkv);
  const Call own_keys{1, heads, groups, n, true, apart}, earlier_keys{1, heads, groups, piece.keys, false, apart};
  if (!plans_->takes(shape, own_keys, kind, rest) ||
      (shape.past > 0 && !plans_->takes(shape, earlier_keys, kind, rest)))
    return own_attention_backward(shape, t, stream);
  for (std::int64_t g = 0; g < shape.kv_heads; g += groups) {
    const std::int64_t q = g * ratio * d, k = (shape.heads + g) * d, v = k + shape.kv_heads * d;
    for (std::int64_t begin = 0; begin < shape.keys(); begin += piece.keys) {
      const bool own = begin == shape.past;
      const std::int64_t keys = own ? n : piece.keys;
      auto* const kv = const_cast<std::uint16_t*>(t.keys.kv) + begin * kv_row + g * d;
      std::unordered_map<std::int64_t, void*> pointers{{kQ, queries + q},
                                                       {kK, kv},
                                                       {kV, kv + shape.kv_heads * d},
                                                       {kO, const_cast<std::uint16_t*>(t.context) + q},
                                                       {kDO, const_cast<std::uint16_t*>(t.d_context) + q},
                                                       {kStats, const_cast<float*>(t.lse) + g * ratio * n},
                                                       {kDQ, t.d_qkv + q},
                                                       {kDK, d_key},
                                                       {kDV, d_value}};
      plans_->execute(plans_->find(shape, own ? own_keys : earlier_keys, kind), pointers, rest, stream);
      add_part({t.d_qkv + q, shape.columns()}, {sum, heads * d}, begin > 0,
               {own ? t.d_qkv + q : nullptr, shape.columns()}, n, heads * d, stream);
      float* const gradient = t.keys.gradient + begin * kv_row + g * d;
      add_part({d_key, groups * d}, {gradient, kv_row}, t.keys.adds, {own ? t.d_qkv + k : nullptr, shape.columns()},
               keys, groups * d, stream);
      add_part({d_value, groups * d}, {gradient + shape.kv_heads * d, kv_row}, t.keys.adds,
               {own ? t.d_qkv + v : nullptr, shape.columns()}, keys, groups * d, stream);
    }
  }
}

void Attention::backward(const AttentionSpec& shape, const AttentionBackward& tensors, const AttentionPiece& piece,
                         bool deterministic, LibraryWorkspace workspace, Stream stream) {
  if (tensors.document_starts != nullptr || !supported(shape) || (shape.is_chunk && piece.kv_groups == 0))
    return own_attention_backward(shape, tensors, stream);
  if (shape.is_chunk) return backward_of_chunk(shape, tensors, piece, deterministic, workspace, stream);
  const std::int64_t d = shape.head_dim, length = shape.length, ratio = shape.heads / shape.kv_heads;
  const int kind = deterministic ? 2 : 1;
  const auto call_at = [&](std::int64_t s, std::int64_t g) {
    const std::int64_t groups = std::min(piece.kv_groups, shape.kv_heads - g);
    return Call{std::min(piece.sequences, shape.sequences - s), groups * ratio, groups, length};
  };
  for (std::int64_t s = 0; s < shape.sequences; s += piece.sequences)
    for (std::int64_t g = 0; g < shape.kv_heads; g += piece.kv_groups)
      if (!plans_->takes(shape, call_at(s, g), kind, workspace)) return own_attention_backward(shape, tensors, stream);
  for (std::int64_t s = 0; s < shape.sequences; s += piece.sequences)
    for (std::int64_t g = 0; g < shape.kv_heads; g += piece.kv_groups) {
      const std::int64_t row = s * length;
      const std::int64_t q = row * shape.columns() + g * ratio * d;
      const std::int64_t k = row * shape.columns() + (shape.heads + g) * d;
      const std::int64_t v = k + shape.kv_heads * d;
      const std::int64_t o = row * shape.heads * d + g * ratio * d;
      auto* packed = const_cast<std::uint16_t*>(tensors.qkv);
      std::unordered_map<std::int64_t, void*> pointers{
          {kQ, packed + q},
          {kK, packed + k},
          {kV, packed + v},
          {kO, const_cast<std::uint16_t*>(tensors.context) + o},
          {kDO, const_cast<std::uint16_t*>(tensors.d_context) + o},
          {kStats, const_cast<float*>(tensors.lse) + (s * shape.heads + g * ratio) * length},
          {kDQ, tensors.d_qkv + q},
          {kDK, tensors.d_qkv + k},
          {kDV, tensors.d_qkv + v}};
      plans_->execute(plans_->find(shape, call_at(s, g), kind), pointers, workspace, stream);
    }
}

}  // namespace penstock::exec

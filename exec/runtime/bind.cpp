#include "exec/runtime/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "shared/error.h"
#include "shared/ir/check_parts.h"
#include "shared/ir/operands.h"

namespace penstock::exec {
namespace {

/// Finds and checks the operands of one op.
class OpBinder {
 public:
  OpBinder(const Schedule& schedule, const Model& model, const OperandTable& table, const TierMemories& memories,
           const Op& op)
      : schedule_(schedule), model_(model), table_(table), memories_(memories), op_(op) {}

  BoundWork bind() const {
    return std::visit([this](const auto& work) -> BoundWork { return make(work); }, op_.work);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("schedule: op {} \"{}\": {}", op_.id, op_.name, what));
  }
  const Layer& layer(int index) const {
    if (index < 0 || index >= model_.layer_count())
      fail(fmt::format("layer {} is not a layer of the model (0 to {})", index, model_.head_index()));
    return model_.layers[static_cast<std::size_t>(index)];
  }
  const Numerics& numerics() const { return schedule_.numerics; }
  bool is_packed() const { return schedule_.micro_batch.kind == BatchKind::packed; }

  static const Access* find(const std::vector<Access>& accesses, TensorKind tensor, int layer) {
    for (const Access& access : accesses)
      if (access.value.tensor == tensor && access.value.layer == layer) return &access;
    return nullptr;
  }
  const Access* reads(TensorKind tensor, int layer) const { return find(op_.reads, tensor, layer); }
  const Access* writes(TensorKind tensor, int layer) const { return find(op_.writes, tensor, layer); }

  MemoryRange range(const Access& access) const {
    const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(access.buffer)];
    return {memories_[static_cast<std::size_t>(buffer.tier)].get(), buffer.offset_bytes + access.offset_bytes,
            access.bytes};
  }
  std::byte* address(const Access& access, std::string_view operand) const {
    std::byte* const at = range(access).address();
    if (at == nullptr)
      fail(fmt::format("its {} lies in a tier without an address, which only copies on NVMe lanes reach", operand));
    return at;
  }
  TierKind tier(const Access& access) const {
    const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(access.buffer)];
    return schedule_.tiers[static_cast<std::size_t>(buffer.tier)].kind;
  }
  /// The operand's address; nullptr if it is absent and `bytes` is 0.
  std::byte* need(const Access* access, std::int64_t bytes, std::string_view operand) const {
    if (access == nullptr) {
      if (bytes == 0) return nullptr;
      fail(fmt::format("has no {} among its reads and writes", operand));
    }
    if (access->bytes < bytes) fail(fmt::format("its {} has {} bytes, it needs {}", operand, access->bytes, bytes));
    return address(*access, operand);
  }
  template <typename T>
  T* need_as(const Access* access, std::int64_t elements, const char* operand) const {
    return reinterpret_cast<T*>(need(access, elements * static_cast<std::int64_t>(sizeof(T)), operand));
  }
  /// An operand that is updated in place: read and written at the same bytes.
  std::byte* in_place(TensorKind tensor, int layer_index, std::int64_t bytes, const char* operand) const {
    const Access* before = reads(tensor, layer_index);
    const Access* after = writes(tensor, layer_index);
    std::byte* at = need(before, bytes, operand);
    if (at != nullptr && at != need(after, bytes, operand))
      fail(fmt::format("reads and writes its {} in two places; states are updated in place", operand));
    return at;
  }
  void same_elements(std::int64_t found, std::int64_t right) const {
    if (found != right) fail(fmt::format("works on {} elements, layer {} has {}", found, op_.layer, right));
  }

  BoundWork make(const CopyWork& work) const {
    if (op_.reads.size() != 1 || op_.writes.size() != 1) fail("a copy has one read and one write");
    const Access &from = op_.reads[0], &to = op_.writes[0];
    if (from.bytes != to.bytes) fail(fmt::format("copies {} bytes into {}", from.bytes, to.bytes));
    BoundCopy copy{range(from), range(to), tier(from), tier(to), work.bursts, work.threads};
    const std::int64_t alignment = std::max(copy.from.memory->alignment(), copy.to.memory->alignment());
    if (copy.from.offset % alignment != 0 || copy.to.offset % alignment != 0)
      fail(fmt::format("copies from byte {} of its tier to byte {}; both must be multiples of {}", copy.from.offset,
                       copy.to.offset, alignment));
    copy.from.bytes = copy.to.bytes = (from.bytes + alignment - 1) / alignment * alignment;
    if (is_gpu(schedule_.lanes[static_cast<std::size_t>(op_.lane)].kind)) {
      address(from, "source");
      address(to, "destination");
    }
    return copy;
  }

  BoundWork make(const TemplateWork& work) const {
    const Layer& own = layer(op_.layer);
    if (own.kind != work.kind) fail(fmt::format("layer {} is of another kind", op_.layer));
    if (op_.micro_batch < 0 || op_.micro_batch >= schedule_.micro_batches)
      fail(fmt::format("micro-batch {} of {}", op_.micro_batch, schedule_.micro_batches));
    TemplateBinding b;
    b.model = &model_;
    b.kind = work.kind;
    b.pass = work.pass;
    b.batch = schedule_.shape_of(op_.micro_batch);
    b.layout = schedule_.layout(work.keep);
    b.window = own.window;
    b.loss_scale = 1.0 / static_cast<double>(schedule_.tokens_per_step());
    b.balance_share = 1.0 / static_cast<double>(schedule_.micro_batches);
    b.gradient_type = numerics().sum_on_host ? numerics().gradient_link : numerics().gradient_sum;
    if (operand_uses(work.kind, work.pass).empty()) fail("its template has no such pass");
    const Operands operands = table_.of(op_, work);
    for (const Operand& read : operands.reads)
      if (is_of_chunks(*read.part))
        bind_chunk(read, op_.reads, b);
      else if (read.part != TemplateOperand::gradient)
        bind(read, op_.reads, b);
    for (const Operand& write : operands.writes)
      is_of_chunks(*write.part) ? bind_chunk(write, op_.writes, b) : bind(write, op_.writes, b);
    for (const Operand& read : operands.reads)
      if (read.part == TemplateOperand::gradient) bind_sum(read, b);
    b.adds_keys = reads(TensorKind::kv_gradient, op_.layer) != nullptr;
    return b;
  }

  void bind(const Operand& operand, const std::vector<Access>& accesses, TemplateBinding& b) const {
    const Access* access = find(accesses, operand.value.tensor, operand.value.layer);
    if (access == nullptr && !operand.required) return;
    const std::byte* place = need(access, operand.bytes, facts(*operand.part).name);
    // Of rows of the whole step, the micro-batch's; a chunk's begin within its row, but for what it finds of the row.
    const int chunks = schedule_.chunks();
    if (const Extent extent = facts(operand.value.tensor).extent;
        extent == Extent::step_tokens || extent == Extent::step_places) {
      place += op_.micro_batch / chunks * (operand.bytes / (schedule_.micro_batches / chunks));
      if (operand.part != TemplateOperand::document_starts) place += 4 * b.batch.past;
    }
    b.set(*operand.part, place);
  }

  /// One chunk's keys and values, or their gradient: all of a sequence are bound by where the first one begins.
  void bind_chunk(const Operand& operand, const std::vector<Access>& accesses, TemplateBinding& b) const {
    const auto access =
        std::find_if(accesses.begin(), accesses.end(), [&](const Access& a) { return a.value == operand.value; });
    const std::string_view name = facts(*operand.part).name;
    const std::byte* place = need(access == accesses.end() ? nullptr : &*access, operand.bytes, name);
    const Value first{operand.value.tensor, operand.value.layer, 0, 0};  // as long as all chunks but the last
    place -= operand.value.micro_batch % schedule_.chunks() * value_bytes(schedule_, model_, first, Keep::input);
    if (b.place(*operand.part) != nullptr && b.place(*operand.part) != place)
      fail(fmt::format("its {} of the chunks of one sequence do not lie one behind the other", name));
    b.set(*operand.part, place);
  }
  /// A gradient that the op reads as well is added to.
  void bind_sum(const Operand& operand, TemplateBinding& b) const {
    const Access* before = reads(operand.value.tensor, operand.value.layer);
    b.accumulates = before != nullptr;
    if (b.accumulates && need(before, operand.bytes, "gradient") != b.place(TemplateOperand::gradient))
      fail("adds to a gradient that lies elsewhere");
  }

  BoundWork make(const OptimizerWork& work) const {
    const Layer& own = layer(op_.layer);
    same_elements(work.elements, own.state_elements);
    const std::int64_t n = own.state_elements, moments = n * element_bytes(numerics().moments);
    BoundOptimizer b;
    b.states.format = numerics().states;
    b.states.moments = numerics().moments;
    b.states.weights = reinterpret_cast<std::uint16_t*>(state_weights(n * 2));
    if (numerics().states == StateFormat::planes)
      b.states.low_bits =
          reinterpret_cast<std::uint16_t*>(in_place(TensorKind::low_bits, op_.layer, n * 2, "low bits"));
    if (numerics().states == StateFormat::master_and_copy)
      b.states.master = reinterpret_cast<float*>(in_place(TensorKind::master, op_.layer, n * 4, "master"));
    b.states.m = in_place(TensorKind::moment_m, op_.layer, moments, "first moment");
    b.states.v = in_place(TensorKind::moment_v, op_.layer, moments, "second moment");
    b.gradient_type = numerics().gradient_link;
    b.gradient = need(reads(TensorKind::gradient, op_.layer), n * element_bytes(b.gradient_type), "gradient");
    b.elements = n;
    b.scalars = need_as<const StepScalars>(reads(TensorKind::step_scalars, -1), 1, "step scalars");
    b.threads = work.threads;
    return b;
  }
  /// A separate bf16 copy is a pure result of the master, so that nothing asks for it among the reads.
  std::byte* state_weights(std::int64_t bytes) const {
    if (numerics().states == StateFormat::master_and_copy)
      return need(writes(TensorKind::weights, op_.layer), bytes, "weights");
    return in_place(TensorKind::weights, op_.layer, bytes, "weights");
  }

  BoundWork make(const AccumulateWork& work) const {
    const Layer& own = layer(op_.layer);
    same_elements(work.elements, own.gradient_elements);
    BoundAccumulate b;
    b.part_type = numerics().gradient_link;
    b.sum_type = numerics().gradient_sum;
    b.part =
        need(reads(TensorKind::gradient_part, op_.layer), work.elements * element_bytes(b.part_type), "gradient part");
    const Access* before = reads(TensorKind::gradient_sum, op_.layer);
    b.sum =
        need(writes(TensorKind::gradient_sum, op_.layer), work.elements * element_bytes(b.sum_type), "gradient sum");
    b.first = before == nullptr;
    if (before != nullptr && address(*before, "gradient sum") != b.sum) fail("adds to a sum that lies elsewhere");
    b.elements = work.elements;
    b.threads = work.threads;
    return b;
  }

  BoundWork make(const FinishGradientWork& work) const {
    const Layer& own = layer(op_.layer);
    same_elements(work.elements, own.state_elements);
    BoundFinish b;
    b.sum_type = numerics().gradient_sum;
    b.out_type = numerics().gradient_link;
    b.elements = work.elements;
    b.threads = work.threads;
    b.sum = need(reads(TensorKind::gradient_sum, op_.layer), b.elements * element_bytes(b.sum_type), "gradient sum");
    b.out = need(writes(TensorKind::gradient, op_.layer), b.elements * element_bytes(b.out_type), "gradient");
    if (op_.layer == 0 && model_.config.tied_embeddings) b.tied = tied_part(b);
    if (const Access* partial = writes(TensorKind::norm_partial, op_.layer))
      b.norm_partial = need_as<double>(partial, 1, "norm partial");
    return b;
  }
  /// The access names the whole gradient of the head, or only the projection's part at its end.
  const void* tied_part(const BoundFinish& b) const {
    const Layer& head = layer(model_.head_index());
    const std::int64_t size = element_bytes(b.sum_type);
    const Access* access = reads(TensorKind::gradient_sum, head.index);
    const bool whole = access != nullptr && access->bytes >= head.gradient_elements * size;
    const std::int64_t skip = whole ? model_.head.projection * size : 0;
    return need(access, skip + b.elements * size, "head's gradient sum (tied weights)") + skip;
  }

  BoundWork make(const StepScalarsWork&) const {
    std::vector<std::pair<int, const double*>> partials;
    for (const Access& access : op_.reads)
      if (access.value.tensor == TensorKind::norm_partial)
        partials.emplace_back(access.value.layer, need_as<const double>(&access, 1, "norm partial"));
    std::sort(partials.begin(), partials.end());
    BoundScalars b;
    for (const auto& [index, pointer] : partials) b.partials.push_back(pointer);
    if (is_packed())
      b.trained_tokens = need_as<const double>(reads(TensorKind::trained_tokens, -1), 1, "trained tokens");
    b.out = need_as<StepScalars>(writes(TensorKind::step_scalars, -1), 1, "step scalars");
    return b;
  }

  BoundWork make(const InputWork&) const {
    BoundInput b;
    b.batch = schedule_.whole_step();
    b.vocabulary = model_.config.vocabulary;
    b.rows.tokens =
        need_as<std::int32_t>(writes(TensorKind::tokens, -1), b.batch.sequences * b.batch.token_row(), "tokens");
    if (!is_packed()) return b;
    b.rows.labels = need_as<std::int32_t>(writes(TensorKind::labels, -1), b.batch.tokens(), "labels");
    b.rows.document_starts =
        need_as<std::int32_t>(writes(TensorKind::document_starts, -1), b.batch.tokens(), "document starts");
    b.trained_tokens = need_as<double>(writes(TensorKind::trained_tokens, -1), 1, "trained tokens");
    return b;
  }

  BoundWork make(const ReportWork&) const {
    BoundReport b;
    if (const Access* losses = reads(TensorKind::loss, model_.head_index()))
      b.losses = need_as<const double>(losses, loss_numbers(model_.config) * schedule_.micro_batches, "losses");
    if (const Access* scalars = reads(TensorKind::step_scalars, -1))
      b.scalars = need_as<const StepScalars>(scalars, 1, "step scalars");
    if (const Access* trained = reads(TensorKind::trained_tokens, -1))
      b.trained_tokens = need_as<const double>(trained, 1, "trained tokens");
    return b;
  }

  BoundWork make(const WaitWork& work) const { return BoundWait{work.op, work.distance}; }
  BoundWork make(const HostPassWork& work) const { return BoundHostPass{work.traffic_bytes, work.threads}; }

  const Schedule& schedule_;
  const Model& model_;
  const OperandTable& table_;
  const TierMemories& memories_;
  const Op& op_;
};

/// A lane's list order already implies an edge from an earlier op of the lane, and from any op of it a step before.
bool implied_by_lane(const Schedule& schedule, const Edge& edge) {
  const int from = schedule.ops[static_cast<std::size_t>(edge.from)].lane,
            to = schedule.ops[static_cast<std::size_t>(edge.to)].lane;
  return from == to && (edge.distance == 1 || edge.from < edge.to);
}

void bind_edges(const Schedule& schedule, std::vector<BoundOp>& ops) {
  for (const Edge& edge : schedule.edges) {
    if (implied_by_lane(schedule, edge)) continue;
    BoundOp& from = ops[static_cast<std::size_t>(edge.from)];
    BoundOp& to = ops[static_cast<std::size_t>(edge.to)];
    to.predecessors.push_back({edge.from, edge.distance, is_gpu(from.lane_kind)});
    (is_gpu(to.lane_kind) ? from.gpu_waits : from.host_waits) = true;
  }
  for (const BoundOp& op : ops)
    if (const auto* wait = std::get_if<BoundWait>(&op.work)) ops[static_cast<std::size_t>(wait->op)].host_waits = true;
  // The launch thread waits for the last GPU op of earlier steps, so as not to run ahead without bounds.
  for (auto op = ops.rbegin(); op != ops.rend(); ++op)
    if (is_gpu(op->lane_kind)) {
      op->host_waits = true;
      break;
    }
}

}  // namespace

BoundSchedule bind_schedule(const Schedule& schedule, const Model& model, const TierMemories& memories) {
  BoundSchedule bound;
  bound.schedule = &schedule;
  bound.model = &model;
  const OperandTable table(schedule, model);
  bound.ops.reserve(schedule.ops.size());
  for (const Op& op : schedule.ops) {
    BoundOp b;
    b.op = &op;
    b.lane_kind = schedule.lanes[static_cast<std::size_t>(op.lane)].kind;
    b.work = OpBinder(schedule, model, table, memories, op).bind();
    bound.ops.push_back(std::move(b));
  }
  bind_edges(schedule, bound.ops);
  return bound;
}

std::vector<std::int64_t> arena_bytes(const Schedule& schedule) {
  std::vector<std::int64_t> bytes(schedule.tiers.size(), 0);
  for (const Buffer& buffer : schedule.buffers) {
    std::int64_t& top = bytes[static_cast<std::size_t>(buffer.tier)];
    top = std::max(top, buffer.offset_bytes + buffer.bytes);
  }
  return bytes;
}

}  // namespace penstock::exec

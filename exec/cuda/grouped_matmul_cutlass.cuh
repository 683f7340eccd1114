// Grouped products through CUTLASS as templates, in whichever form: what grouped_matmul_cutlass.cu makes its products of, and
// bench/experts_weight_gradients.cu others that may be faster.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "exec/cuda/error.h"
#include "exec/cuda/grouped_matmul.h"
#include "exec/cuda/vectors.cuh"

namespace penstock::exec::cutlass_grouped {

/// Copies of a tile from shared memory that are added to what is there: on the host as any store, and with the
/// descriptor of an expert.
struct AddingStore : cute::SM90_TMA_STORE {};
struct AddingStoreOfExpert : cute::SM90_TMA_REDUCE_ADD {};

}  // namespace penstock::exec::cutlass_grouped

namespace cute {

template <class Bits, class Aux>
struct Copy_Traits<penstock::exec::cutlass_grouped::AddingStore, Bits, Aux> {
  using ThrID = Layout<_1>;
  using SrcLayout = Layout<Shape<_1, Bits>>;
  using DstLayout = SrcLayout;
  using RefLayout = SrcLayout;
  using AuxParams = Aux;
  TmaDescriptor descriptor;
  Aux aux_params_;

  CUTE_HOST_DEVICE constexpr const TmaDescriptor* get_tma_descriptor() const { return &descriptor; }
  template <class GlobalShape>
  CUTE_HOST_DEVICE constexpr auto get_tma_tensor(const GlobalShape& shape) const {
    return make_coord_tensor(make_layout(shape, aux_params_.g_stride_));
  }
  CUTE_HOST_DEVICE constexpr Copy_Traits<penstock::exec::cutlass_grouped::AddingStoreOfExpert, Bits> with(
      const TmaDescriptor* of_expert) const {
    return {of_expert};
  }
};

template <class Bits>
struct Copy_Traits<penstock::exec::cutlass_grouped::AddingStoreOfExpert, Bits> {
  using ThrID = Layout<_1>;
  using SrcLayout = Layout<Shape<_1, Bits>>;
  using DstLayout = SrcLayout;
  using RefLayout = SrcLayout;
  const TmaDescriptor* descriptor;

  template <class From, class FromLayout, class To, class ToLayout>
  CUTE_HOST_DEVICE friend constexpr void copy_unpack(const Copy_Traits& traits, const Tensor<From, FromLayout>& from,
                                                     Tensor<To, ToLayout>& to) {
    const void *const descriptor = traits.descriptor, *const data = raw_pointer_cast(from.data());
    const auto at = to.data().coord_;
    detail::explode_tuple(detail::CallCOPY<penstock::exec::cutlass_grouped::AddingStoreOfExpert>{},
                          make_tuple(descriptor, data), seq<0, 1>{}, at, tuple_seq<decltype(at)>{});
  }
};

}  // namespace cute

namespace penstock::exec::cutlass_grouped {

using cutlass::layout::ColumnMajor;
using cutlass::layout::RowMajor;

constexpr int kThreads = 256;
constexpr std::int64_t kAlignment = 256;  // bytes, of each array in the workspace

/// How a multiprocessor goes about it. Cooperative: both of its groups of warps share a tile. Pingpong: each has its own, so
/// that one writes its result while the other multiplies. With kMemoryAdds what is added to is not read: the memory's own
/// units add, which for fp32 is the same sum, but for results below 2^-126, which they make 0.
template <class TileShape, class ClusterShape, bool kPingpong, bool kMemoryAdds = false>
struct Form {
  static constexpr bool kAddsInMemory = kMemoryAdds;
  using Tile = TileShape;
  using Cluster = ClusterShape;
  using MainSchedule = std::conditional_t<kPingpong, cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong,
                                          cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative>;
  using EpilogueSchedule = std::conditional_t<kPingpong, cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong,
                                              cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative>;
};
using OneTile = cute::Shape<cute::_1, cute::_1, cute::_1>;
using UsualForm = Form<cute::Shape<cute::_128, cute::_256, cute::_64>, OneTile, false>;

/// An epilogue without a source, but with stores that add.
template <class Epilogue>
struct AddsInMemory;
template <class Policy, class Tile, class Part, class Source, class SourceStride, class Result, class ResultStride,
          class Fusion, class Load, class LoadLayout, class LoadToRegisters, class Store, class... Rest>
struct AddsInMemory<
    cutlass::epilogue::collective::CollectiveEpilogue<Policy, Tile, Part, Source, SourceStride, Result, ResultStride,
                                                      Fusion, Load, LoadLayout, LoadToRegisters, Store, Rest...>> {
  static_assert(std::is_same_v<Store, cute::SM90_TMA_STORE>);
  using type = cutlass::epilogue::collective::CollectiveEpilogue<Policy, Tile, Part, Source, SourceStride, Result,
                                                                 ResultStride, Fusion, Load, LoadLayout,
                                                                 LoadToRegisters, AddingStore, Rest...>;
};

/// result [m, n] = a [m, k] b [k, n] of each expert, the layouts as they lie in memory. With Adds it is added to.
template <class Way, class LayoutA, class LayoutB, class Result, bool Adds>
struct Product {
  using Element = cutlass::bfloat16_t;
  using Tile = typename Way::Tile;
  using Cluster = typename Way::Cluster;
  static constexpr bool kAddsInMemory = Adds && Way::kAddsInMemory;
  using Before = std::conditional_t<Adds && !kAddsInMemory, Result, void>;
  static constexpr bool kARows = std::is_same_v<LayoutA, RowMajor>, kBRows = std::is_same_v<LayoutB, RowMajor>;
  static constexpr int kOperandPack = 8, kResultPack = 16 / static_cast<int>(sizeof(Result));

  using BuiltEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, Before, RowMajor*, kResultPack, Result, RowMajor*,
      kResultPack, typename Way::EpilogueSchedule,
      cutlass::epilogue::fusion::LinearCombination<Result, float, Before>>::CollectiveOp;
  using Epilogue = std::conditional_t<kAddsInMemory, typename AddsInMemory<BuiltEpilogue>::type, BuiltEpilogue>;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, LayoutA*, kOperandPack, Element, LayoutB*,
      kOperandPack, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      typename Way::MainSchedule>::CollectiveOp;
  using Shapes = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Shapes, Mainloop, Epilogue>;
  using Device = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  using Shape = typename Shapes::UnderlyingProblemShape;
  using StrideA = typename Kernel::InternalStrideA;
  using StrideB = typename Kernel::InternalStrideB;
  using StrideC = typename Kernel::InternalStrideC;
  using StrideD = typename Kernel::InternalStrideD;

  /// One of each for each expert, in device memory.
  struct Arrays {
    Shape* shapes;
    const Element** a;
    const Element** b;
    Result** result;
    StrideA* stride_a;
    StrideB* stride_b;
    StrideC* stride_c;
    StrideD* stride_d;
  };
};

/// Where an operand of expert e begins: elements per row of the experts' rows before it, and per expert.
struct Step {
  std::int64_t by_row = 0, by_expert = 0;

  __device__ std::int64_t at(int expert, int row) const { return by_row * row + by_expert * expert; }
};

/// The sizes of an expert's product; its rows are m, or k of a gradient.
struct Sizes {
  int m = 0, n = 0, k = 0;
  bool rows_are_k = false;
};

/// Of a matrix whose contiguous lines have `elements`.
template <class Stride>
__device__ Stride row_stride(std::int64_t elements) {
  Stride stride{};
  if constexpr (cute::is_static_v<std::remove_cvref_t<decltype(cute::get<0>(stride))>>)
    cute::get<1>(stride) = elements;
  else
    cute::get<0>(stride) = elements;
  return stride;
}

/// One thread for each expert. One without rows has no tiles.
template <class P, class Result>
__global__ void describe_kernel(const std::int32_t* first, int experts, const Sizes sizes, const std::uint16_t* a,
                                const Step step_a, const std::uint16_t* b, const Step step_b, Result* result,
                                const Step step_result, const typename P::Arrays to) {
  const int e = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (e >= experts) return;
  using Element = typename P::Element;
  const int begin = first[e], rows = first[e + 1] - begin;
  const int m = sizes.rows_are_k ? (rows > 0 ? sizes.m : 0) : rows, k = sizes.rows_are_k ? rows : sizes.k;
  to.shapes[e] = typename P::Shape{m, sizes.n, k};
  to.a[e] = reinterpret_cast<const Element*>(a) + step_a.at(e, begin);
  to.b[e] = reinterpret_cast<const Element*>(b) + step_b.at(e, begin);
  to.result[e] = result + step_result.at(e, begin);
  to.stride_a[e] = row_stride<typename P::StrideA>(P::kARows ? k : m);
  to.stride_b[e] = row_stride<typename P::StrideB>(P::kBRows ? sizes.n : k);
  to.stride_c[e] = row_stride<typename P::StrideC>(sizes.n);
  to.stride_d[e] = row_stride<typename P::StrideD>(sizes.n);
}

/// Gradients of experts without rows. Block (x, e).
static __global__ void clear_kernel(const std::int32_t* first, uint4* target, std::int64_t stride, std::int64_t packs) {
  const std::int64_t e = blockIdx.y;
  if (first[e + 1] > first[e]) return;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < packs;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads)
    target[e * stride + i] = make_uint4(0, 0, 0, 0);
}

/// Cuts arrays from the workspace.
class Cutter {
 public:
  explicit Cutter(LibraryWorkspace workspace) : workspace_(workspace) {}

  template <class T>
  T* take(std::int64_t count) {
    return reinterpret_cast<T*>(take_bytes(count * static_cast<std::int64_t>(sizeof(T))));
  }
  std::byte* take_bytes(std::int64_t bytes) {
    std::byte* const at = workspace_.data + taken_;
    taken_ += divide_up(bytes, kAlignment) * kAlignment;
    if (taken_ > workspace_.bytes) throw std::logic_error("grouped product: the workspace is too small");
    return at;
  }

 private:
  LibraryWorkspace workspace_;
  std::int64_t taken_ = 0;
};

inline void check(cutlass::Status status, const char* call) {
  if (status != cutlass::Status::kSuccess)
    throw std::runtime_error(std::string("CUTLASS: ") + call + ": " + cutlass::cutlassGetStatusString(status));
}

struct Card {
  int device = -1, processors = 0;
  bool is_sm90 = false;
};
inline const Card& this_card() {
  static thread_local Card card;
  int device = 0;
  PENSTOCK_CUDA(cudaGetDevice(&device));
  if (card.device == device) return card;
  int major = 0, minor = 0, processors = 0;
  PENSTOCK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  PENSTOCK_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  PENSTOCK_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  card = {device, processors, major == 9 && minor == 0};
  return card;
}

template <class P, class Result>
void run(const ExpertRows& rows, const Sizes& sizes, const std::uint16_t* a, const Step& step_a, const std::uint16_t* b,
         const Step& step_b, Result* result, const Step& step_result, LibraryWorkspace workspace, Stream stream) {
  const std::int64_t count = rows.experts;
  Cutter cutter(workspace);
  using Element = typename P::Element;
  const typename P::Arrays arrays{cutter.take<typename P::Shape>(count),   cutter.take<const Element*>(count),
                                  cutter.take<const Element*>(count),      cutter.take<Result*>(count),
                                  cutter.take<typename P::StrideA>(count), cutter.take<typename P::StrideB>(count),
                                  cutter.take<typename P::StrideC>(count), cutter.take<typename P::StrideD>(count)};
  describe_kernel<P><<<static_cast<unsigned>(divide_up(count, kThreads)), kThreads, 0, stream>>>(
      rows.first, static_cast<int>(count), sizes, a, step_a, b, step_b, result, step_result, arrays);
  PENSTOCK_CUDA_LAUNCH("grouped product, sizes");

  typename P::Device::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGrouped,
                                          {static_cast<int>(count), arrays.shapes, nullptr},
                                          {arrays.a, arrays.stride_a, arrays.b, arrays.stride_b},
                                          {{}, nullptr, arrays.stride_c, arrays.result, arrays.stride_d},
                                          {}};
  arguments.epilogue.thread.alpha = 1.0f;
  if constexpr (!std::is_void_v<typename P::Before>) {
    arguments.epilogue.thread.beta = 1.0f;
    arguments.epilogue.ptr_C = const_cast<const Result**>(arrays.result);
  }
  const Card& card = this_card();
  arguments.hw_info.device_id = card.device;
  arguments.hw_info.sm_count = card.processors;
  typename P::Device product;
  std::byte* const rest = cutter.take_bytes(static_cast<std::int64_t>(P::Device::get_workspace_size(arguments)));
  check(product.can_implement(arguments), "can_implement");
  check(product.initialize(arguments, rest, stream), "initialize");
  check(product.run(stream), "run");
}

template <class Way, class Result>
void add_gradients(const ExpertRows& rows, const Sizes& sizes, const std::uint16_t* d_y, const std::uint16_t* x,
                   const GradientTarget& d_w, std::int64_t stride, LibraryWorkspace workspace, Stream stream) {
  const Step step_y{sizes.m, 0}, step_x{sizes.n, 0}, step_w{0, stride};
  auto* const target = static_cast<Result*>(d_w.data);
  if (d_w.accumulates) {
    run<Product<Way, ColumnMajor, RowMajor, Result, true>>(rows, sizes, d_y, step_y, x, step_x, target, step_w,
                                                           workspace, stream);
    return;
  }
  constexpr std::int64_t kPack = 16 / sizeof(Result);
  const std::int64_t packs = std::int64_t{sizes.m} * sizes.n / kPack;
  const dim3 blocks(static_cast<unsigned>(std::min<std::int64_t>(divide_up(packs, kThreads), 64)),
                    static_cast<unsigned>(rows.experts));
  clear_kernel<<<blocks, kThreads, 0, stream>>>(rows.first, static_cast<uint4*>(d_w.data), stride / kPack, packs);
  PENSTOCK_CUDA_LAUNCH("grouped weight gradient, experts without rows");
  run<Product<Way, ColumnMajor, RowMajor, Result, false>>(rows, sizes, d_y, step_y, x, step_x, target, step_w,
                                                          workspace, stream);
}

}  // namespace penstock::exec::cutlass_grouped

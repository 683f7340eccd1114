#include "exec/cuda/matmul.h"

#include <cublasLt.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "exec/cuda/error.h"

namespace penstock::exec {
namespace {

void check_cublas(cublasStatus_t status, const char* call, int line) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw_library_error("cuBLASLt", static_cast<int>(status), cublasLtGetStatusString(status), call, __FILE__, line);
}
#define PENSTOCK_CUBLAS(call) check_cublas((call), #call, __LINE__)

/// A cuBLASLt handle of any kind, destroyed with its owner.
template <class T, cublasStatus_t (*Destroy)(T)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Owned() {
    if (value_) Destroy(value_);
  }
  T* operator&() { return &value_; }
  operator T() const { return value_; }

 private:
  T value_ = nullptr;
};

using Handle = Owned<cublasLtHandle_t, cublasLtDestroy>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t cuda_type(ElementType type) { return type == ElementType::fp32 ? CUDA_R_32F : CUDA_R_16BF; }

/// Row-major [rows, columns] is column-major [columns, rows] with the row's length as leading dimension.
Layout layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
  Layout result;
  PENSTOCK_CUBLAS(cublasLtMatrixLayoutCreate(&result, type, static_cast<std::uint64_t>(columns),
                                             static_cast<std::uint64_t>(rows), columns));
  return result;
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  PENSTOCK_CUBLAS(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value));
}

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  PENSTOCK_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
}

/// What every row of a matrix of this row length is aligned to, the matrices themselves lying at multiples of 128 bytes
/// (kGroupAlignment elements) or at a row of such a matrix.
std::uint32_t row_alignment(std::int64_t columns, ElementType type) {
  return static_cast<std::uint32_t>(std::gcd(std::int64_t{128}, columns * element_bytes(type)));
}

int algorithm_value(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  int value = 0;
  std::size_t written = 0;
  // CTA swizzling, tile and the like are 32-bit, the stages too; what an algorithm does not have stays 0.
  if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written) !=
      CUBLAS_STATUS_SUCCESS)
    return 0;
  return value;
}

std::string describe(const cublasLtMatmulHeuristicResult_t& result) {
  const auto value = [&](cublasLtMatmulAlgoConfigAttributes_t a) {
    return std::to_string(algorithm_value(result.algo, a));
  };
  return "id " + value(CUBLASLT_ALGO_CONFIG_ID) + " tile " + value(CUBLASLT_ALGO_CONFIG_TILE_ID) + " stages " +
         value(CUBLASLT_ALGO_CONFIG_STAGES_ID) + " split " + value(CUBLASLT_ALGO_CONFIG_SPLITK_NUM) + " swizzle " +
         value(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING) + " workspace " + std::to_string(result.workspaceSize);
}

struct Plan {
  MatmulShape shape;
  Operation operation;
  Layout a, b, d;  // cuBLASLt's: its A is our b
  cublasLtMatmulHeuristicResult_t choice{};
};

/// `bias`: any of the shape, all are aligned alike.
Plan make_plan(cublasLtHandle_t handle, const MatmulShape& shape, const void* bias, std::uint64_t workspace) {
  Plan plan;
  plan.shape = shape;
  PENSTOCK_CUBLAS(cublasLtMatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, shape.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, shape.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (shape.bias) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  const std::int64_t a_columns = shape.a_transposed ? shape.m : shape.k,
                     b_columns = shape.b_transposed ? shape.k : shape.n;
  plan.a = layout(CUDA_R_16BF, shape.m * shape.k / a_columns, a_columns);
  plan.b = layout(CUDA_R_16BF, shape.n * shape.k / b_columns, b_columns);
  plan.d = layout(cuda_type(shape.output), shape.m, shape.n);

  Preference preference;
  PENSTOCK_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, row_alignment(b_columns, ElementType::bf16));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, row_alignment(a_columns, ElementType::bf16));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, row_alignment(shape.n, shape.output));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, row_alignment(shape.n, shape.output));
  int found = 0;
  PENSTOCK_CUBLAS(cublasLtMatmulAlgoGetHeuristic(handle, plan.operation, plan.b, plan.a, plan.d, plan.d, preference, 1,
                                                 &plan.choice, &found));
  if (found == 0) check_cublas(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic found nothing", __LINE__);
  return plan;
}

}  // namespace

struct Matmul::Plans {
  Handle handle;
  std::vector<std::unique_ptr<Plan>> plans;  // in the order of first use
  std::map<std::pair<MatmulShape, std::int64_t>, Plan*> index;

  Plan& find(const MatmulShape& shape, const void* bias, std::int64_t workspace) {
    Plan*& place = index[{shape, workspace}];
    if (!place) {
      plans.push_back(std::make_unique<Plan>(make_plan(handle, shape, bias, static_cast<std::uint64_t>(workspace))));
      place = plans.back().get();
    }
    return *place;
  }
};

Matmul::Matmul() : plans_(std::make_unique<Plans>()) { PENSTOCK_CUBLAS(cublasLtCreate(&plans_->handle)); }
Matmul::~Matmul() = default;

std::size_t Matmul::library_version() { return cublasLtGetVersion(); }

void Matmul::run(const MatmulShape& shape, const void* a, const void* b, const void* c, void* d, const void* bias,
                 LibraryWorkspace workspace, Stream stream) {
  Plan& plan = plans_->find(shape, bias, std::min(workspace.bytes, kLibraryWorkspaceBytes));
  if (shape.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float one = 1.0f, beta = shape.adds ? 1.0f : 0.0f;
  PENSTOCK_CUBLAS(cublasLtMatmul(plans_->handle, plan.operation, &one, b, plan.b, a, plan.a, &beta, shape.adds ? c : d,
                                 plan.d, d, plan.d, &plan.choice.algo, workspace.data, plan.choice.workspaceSize,
                                 stream));
}

void Matmul::forward(const std::uint16_t* x, const std::uint16_t* w, const std::uint16_t* bias,
                     const std::uint16_t* residual, std::uint16_t* y, std::int64_t rows, std::int64_t outputs,
                     std::int64_t inputs, LibraryWorkspace workspace, Stream stream) {
  MatmulShape shape{.m = rows, .n = outputs, .k = inputs, .b_transposed = true};
  shape.adds = residual != nullptr;
  shape.bias = bias != nullptr;
  run(shape, x, w, residual, y, bias, workspace, stream);
}

void Matmul::forward(const std::uint16_t* x, const std::uint16_t* w, float* y, std::int64_t rows, std::int64_t outputs,
                     std::int64_t inputs, LibraryWorkspace workspace, Stream stream) {
  run({.m = rows, .n = outputs, .k = inputs, .b_transposed = true, .output = ElementType::fp32}, x, w, nullptr, y,
      nullptr, workspace, stream);
}

void Matmul::input_gradient(const std::uint16_t* d_y, const std::uint16_t* w, std::uint16_t* d_x, std::int64_t rows,
                            std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream) {
  run({.m = rows, .n = inputs, .k = outputs}, d_y, w, nullptr, d_x, nullptr, workspace, stream);
}

void Matmul::add_input_gradient(const std::uint16_t* d_y, const std::uint16_t* w, std::uint16_t* d_x, std::int64_t rows,
                                std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream) {
  run({.m = rows, .n = inputs, .k = outputs, .adds = true}, d_y, w, d_x, d_x, nullptr, workspace, stream);
}

void Matmul::weight_gradient(const std::uint16_t* d_y, const std::uint16_t* x, GradientTarget d_w, std::int64_t rows,
                             std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream) {
  run({.m = outputs, .n = inputs, .k = rows, .a_transposed = true, .output = d_w.type, .adds = d_w.accumulates}, d_y, x,
      d_w.data, d_w.data, nullptr, workspace, stream);
}

std::vector<MatmulChoice> Matmul::choices() const {
  std::vector<MatmulChoice> result;
  for (const auto& plan : plans_->plans) result.push_back({plan->shape, describe(plan->choice)});
  return result;
}

}  // namespace penstock::exec

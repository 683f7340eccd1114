#include "exec/cuda/cudnn_library.h"

#include <cudnn.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include <cstdlib>
#include <string>
#include <string_view>

#define PENSTOCK_TEXT_OF(value) #value
#define PENSTOCK_TEXT(value) PENSTOCK_TEXT_OF(value)

// What attention_cudnn.cpp and the frontend's headers call; one that is not here does not link.
#define PENSTOCK_CUDNN_FUNCTIONS(each) \
  each(cudnnBackendCreateDescriptor);  \
  each(cudnnBackendDestroyDescriptor); \
  each(cudnnBackendExecute);           \
  each(cudnnBackendFinalize);          \
  each(cudnnBackendGetAttribute);      \
  each(cudnnBackendSetAttribute);      \
  each(cudnnCreate);                   \
  each(cudnnDestroy);                  \
  each(cudnnGetErrorString);           \
  each(cudnnGetLastErrorString);       \
  each(cudnnGetStream);                \
  each(cudnnGetVersion);               \
  each(cudnnSetStream)

namespace penstock::exec {
namespace {

constexpr const char* kLibrary = "libcudnn.so." PENSTOCK_TEXT(CUDNN_MAJOR);

class Cudnn {
 public:
  Cudnn() {
    // The driver then compiles every kernel from PTX; cuDNN has none of its attention and fails when that is executed.
    if (const char* const forced = std::getenv("CUDA_FORCE_PTX_JIT");
        forced != nullptr && forced == std::string_view("1")) {
      missing = "the environment's CUDA_FORCE_PTX_JIT=1 forbids its kernels, which it has no PTX of";
      return;
    }
    // cuDNN loads NVRTC by itself, from fewer places than the linker knows. Without it cuDNN refuses what it would
    // compile, and says so.
    dlopen(PENSTOCK_NVRTC, RTLD_NOW | RTLD_GLOBAL);
    void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const why = dlerror();
      missing = (why == nullptr ? std::string(kLibrary) + " cannot be loaded" : why) +
                "; `pip install nvidia-cudnn-cu13 nvidia-cuda-nvrtc` or NVIDIA's own packages bring it";
      return;
    }
#define PENSTOCK_FIND(name) find(library, #name, name)
    PENSTOCK_CUDNN_FUNCTIONS(PENSTOCK_FIND);
#undef PENSTOCK_FIND
  }

  std::string missing;
#define PENSTOCK_MEMBER(name) decltype(&::name) name = nullptr
  PENSTOCK_CUDNN_FUNCTIONS(PENSTOCK_MEMBER);
#undef PENSTOCK_MEMBER

 private:
  template <typename Function>
  void find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function == nullptr) missing = std::string(kLibrary) + " has no " + name;
  }
};

/// Never unloaded: handles of it live as long as the program.
const Cudnn& cudnn() {
  static const Cudnn found;
  return found;
}

}  // namespace

const std::string& cudnn_missing() { return cudnn().missing; }

}  // namespace penstock::exec

using penstock::exec::cudnn;

extern "C" {

size_t cudnnGetVersion() { return cudnn().cudnnGetVersion(); }
const char* cudnnGetErrorString(cudnnStatus_t status) { return cudnn().cudnnGetErrorString(status); }
void cudnnGetLastErrorString(char* message, size_t size) { cudnn().cudnnGetLastErrorString(message, size); }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return cudnn().cudnnCreate(handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return cudnn().cudnnDestroy(handle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return cudnn().cudnnSetStream(handle, stream);
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return cudnn().cudnnGetStream(handle, stream);
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  return cudnn().cudnnBackendCreateDescriptor(type, descriptor);
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return cudnn().cudnnBackendDestroyDescriptor(descriptor);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return cudnn().cudnnBackendFinalize(descriptor);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  return cudnn().cudnnBackendSetAttribute(descriptor, name, type, count, elements);
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t asked, int64_t* count,
                                       void* elements) {
  return cudnn().cudnnBackendGetAttribute(descriptor, name, type, asked, count, elements);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant) {
  return cudnn().cudnnBackendExecute(handle, plan, variant);
}

// The frontend compiles kernels of its own for other graphs than attention's; none is built here.
nvrtcResult nvrtcCreateProgram(nvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*) {
  return NVRTC_ERROR_INTERNAL_ERROR;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char* const*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetPTXSize(nvrtcProgram, size_t*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetPTX(nvrtcProgram, char*) { return NVRTC_ERROR_INTERNAL_ERROR; }

}  // extern "C"

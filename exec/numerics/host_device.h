// Marks a function for both compilers: nvcc builds it for host and device, any other compiler as it is.
#pragma once

#ifdef __CUDACC__
#define PENSTOCK_HOST_DEVICE __host__ __device__
#else
#define PENSTOCK_HOST_DEVICE
#endif

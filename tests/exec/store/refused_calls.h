// A child process in which the system refuses a call, as a container's filter or a file system does.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <exception>

namespace penstock::exec {

/// From now on `call` (SYS_...) fails with `error` in this process. False where no filter may be set.
inline bool refuse_call(int call, int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

inline constexpr int kNoFilter = 77;

/// What `check` returns (0: as expected) in a child that `prepare` has made; kNoFilter where that returns false.
template <class Prepare, class Check>
int in_child(const Prepare& prepare, const Check& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!prepare()) ::_exit(kNoFilter);
    int code = 1;
    try {
      code = check();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace penstock::exec

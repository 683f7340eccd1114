// What tests of errors share.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "shared/error.h"

namespace penstock {

/// What the InputError says that `action` throws; "" if it throws none.
template <class Action>
std::string error_text(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace penstock

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

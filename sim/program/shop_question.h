// `shop --gpu`: a machine that the command line names, in the place of the catalogue's.
#pragma once

#include "sim/planner/catalogue.h"
#include "sim/program/commands.h"

namespace penstock::sim {

/// Whether a machine was asked about. Throws InputError: --host, --ram, --drive or --scenario-out without --gpu.
bool is_question(const ShopOptions& options);

/// That machine at the price of its parts, with its defaults said on standard error; writes --scenario-out.
Offer asked_offer(const ShopOptions& options);

}  // namespace penstock::sim

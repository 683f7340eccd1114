// Keys of config.json by which other families change the mathematics. The families that can be read have none of them,
// so that a file which says such a thing is of another model, or was made for code of its own: never passed over.
#pragma once

#include "shared/json_reader.h"
#include "shared/model/model.h"

namespace penstock {

/// Throws InputError, with what the key stands for, if the object has one of them with a value that changes something:
/// anything but null, false, an empty list, and the factor or scale that is there anyway.
void refuse_foreign_keys(JsonObject& object, const ModelConfig& config);

}  // namespace penstock

// The style and the scripts of a page, embedded by CMake from the files beside this one.
#pragma once

namespace penstock {

extern const char* const kPageStyle;    // page.css
extern const char* const kPageScripts;  // page.js, table.js, points.js, timeline.js, one after the other

}  // namespace penstock

# cmake -DFILES="a.js;b.css" -DOUTPUT=x.cc -P embed.cmake: the files of hyperion/dash's page as one source. A literal of text holds 64 KB with
# every compiler, which is more than any of them has.
set(rows "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  string(FIND "${text}" ")page\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${file} holds the end of a raw literal")
  endif()
  set(type text/html)
  if(name MATCHES "\\.js$")
    set(type text/javascript)
  elseif(name MATCHES "\\.css$")
    set(type text/css)
  endif()
  string(APPEND rows "    {\"${name}\", \"${type}; charset=utf-8\", R\"page(${text})page\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"hyperion/dash/page_files.h\"
namespace hyperion::dash {
namespace {
constexpr PageFile kPageFiles[] = {
${rows}};
}  // namespace
const PageFile* page_file(std::string_view name) {
  for (const auto& file : kPageFiles)
    if (file.name == name) return &file;
  return nullptr;
}
}  // namespace hyperion::dash
")

// jpeglib.h needs both of these before it.
#include <cstddef>
#include <cstdio>
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <csetjmp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/images/image_codecs.h"

namespace hyperion::images {
namespace {

constexpr int kMostScans = 100;        // of a progressive file; each costs a pass over the whole image
constexpr int64_t kChromaMargin = 16;  // pixels beside a part that the smooth upsampling of its edge looks at

// libjpeg leaves by longjmp, over whatever stands between: so what calls it holds no object with a destructor, and
// everything it needs lives here.
class JpegReader {
 public:
  explicit JpegReader(std::string_view bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) { fail(info); };
    errors_.emit_message = on_message;
    progress_.progress_monitor = [](j_common_ptr info) {
      if (info->is_decompressor && reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans)
        fail(info, "too many scans");
    };
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Each is false where libjpeg gave up, and reason() says why.
  bool header() { return attempt(&JpegReader::read_header); }
  // Begins to decode; with a box (of the shrunken image), only around it.
  bool start(const Box* box, int64_t shrink) {
    box_ = box, info_.scale_num = 1, info_.scale_denom = static_cast<unsigned>(shrink);
    return attempt(&JpegReader::begin_part);
  }
  // Decodes the part's rows into `rgb`; `inks` is room for one row of four colors where has_inks(). Where no box was
  // asked for, it reads on to the end of the file.
  bool rows(uint8_t* rgb, uint8_t* inks) {
    rgb_ = rgb, inks_ = inks;
    return attempt(&JpegReader::read_rows);
  }

  ImageSize size() const { return {info_.image_height, info_.image_width}; }
  const Box& part() const { return part_; }
  bool has_inks() const { return info_.out_color_space == JCS_CMYK; }
  const char* reason() const { return reason_; }

  // Whether the file goes on to its end marker. The header was read, so that a thumbnail's does not count.
  bool has_end() const {
    const size_t scanned = bytes_.size() - info_.src->bytes_in_buffer;
    const size_t end = bytes_.rfind("\xff\xd9");
    return end != std::string_view::npos && end >= scanned;
  }

 private:
  // Alone with setjmp, so that no variable can be caught half-changed.
  __attribute__((noinline)) bool attempt(void (JpegReader::*work)()) {
    if (setjmp(jump_) != 0) return false;
    (this->*work)();
    return true;
  }

  void read_header() {
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&info_, TRUE);
  }

  void begin_part() {
    const bool inks = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&info_);
    part_ = {0, 0, info_.output_width, info_.output_height};
    if (box_ == nullptr) return;
    const Box& box = *box_;
    part_.top = std::clamp<int64_t>(box.top, 0, info_.output_height - 1);
    part_.height = std::clamp<int64_t>(box.top + box.height, part_.top + 1, info_.output_height) - part_.top;
    const int64_t right = std::min<int64_t>(box.left + box.width + kChromaMargin, info_.output_width);
    auto left = static_cast<JDIMENSION>(std::clamp<int64_t>(box.left - kChromaMargin, 0, right - 1));
    auto width = static_cast<JDIMENSION>(right - left);
    if (width < info_.output_width) jpeg_crop_scanline(&info_, &left, &width);
    part_.left = left, part_.width = info_.output_width;
    if (part_.top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(part_.top));
  }

  void read_rows() {
    for (int64_t y = 0; y < part_.height; ++y) {
      uint8_t* out = rgb_ + y * part_.width * 3;
      JSAMPROW row = has_inks() ? inks_ : out;
      jpeg_read_scanlines(&info_, &row, 1);
      if (has_inks()) to_rgb(inks_, out);
    }
    if (box_ == nullptr) jpeg_finish_decompress(&info_);
  }

  [[noreturn]] static void fail(j_common_ptr info, const char* reason = nullptr) {
    auto* self = static_cast<JpegReader*>(info->client_data);
    if (reason == nullptr)
      info->err->format_message(info, self->reason_);
    else
      std::snprintf(self->reason_, sizeof self->reason_, "%s", reason);
    std::longjmp(self->jump_, 1);
  }

  // libjpeg warns where it goes on with made-up pixels. Two of its warnings are of no consequence.
  static void on_message(j_common_ptr info, int level) {
    const int code = info->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR) fail(info);
  }

  // Files with Adobe's marker, all that there are in practice, hold the inks inverted: 255 is none.
  void to_rgb(const uint8_t* inks, uint8_t* out) const {
    const int flip = info_.saw_Adobe_marker ? 0 : 255;
    for (int64_t x = 0; x < part_.width; ++x, inks += 4, out += 3)
      for (int c = 0; c < 3; ++c) out[c] = static_cast<uint8_t>(((inks[c] ^ flip) * (inks[3] ^ flip) + 127) / 255);
  }

  std::string_view bytes_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  const Box* box_ = nullptr;
  Box part_;
  uint8_t *rgb_ = nullptr, *inks_ = nullptr;
  char reason_[JMSG_LENGTH_MAX] = {};
};

[[noreturn]] void refuse(const JpegReader& reader, const std::string& name) {
  throw base::CorruptError(base::format("{}: damaged JPEG file: {}", name, reader.reason()));
}

void read_header(JpegReader& reader, const std::string& name, int64_t most_pixels) {
  if (!reader.header()) refuse(reader, name);
  check_size(reader.size(), name, most_pixels);
}

}  // namespace

ImageSize jpeg_size(std::string_view bytes, const std::string& name, int64_t most_pixels) {
  JpegReader reader(bytes);
  read_header(reader, name, most_pixels);
  return reader.size();
}

ImagePart decode_jpeg(std::string_view bytes, const std::string& name, int64_t most_pixels, const Box* box,
                      int64_t shrink) {
  JpegReader reader(bytes);
  read_header(reader, name, most_pixels);
  if (!reader.has_end()) throw base::CorruptError(base::format("{}: a JPEG file that is cut off", name));
  Box shrunken;
  if (box != nullptr) shrunken = ImagePart{{}, 0, 0, shrink}.find(*box), box = &shrunken;
  if (!reader.start(box, shrink)) refuse(reader, name);
  const Box& part = reader.part();
  ImagePart decoded{Pixels({part.height, part.width}), part.left, part.top, shrink};
  std::vector<uint8_t> inks(reader.has_inks() ? static_cast<size_t>(part.width) * 4 : 0);
  if (!reader.rows(decoded.pixels.rgb.data(), inks.data())) refuse(reader, name);
  return decoded;
}

}  // namespace hyperion::images

#include "hyperion/images/image_processing.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"

namespace hyperion::images {
namespace {

TEST(ImageProcessing, is_read_back_as_it_was_written) {
  const ImageProcessing written{24, 27, true, kCifar};
  const auto read = parse_processor(processor_json(written), "here");
  EXPECT_EQ(read.side, 24);
  EXPECT_EQ(read.shorter, 27);
  EXPECT_TRUE(read.bicubic);
  EXPECT_EQ(read.normalisation, kCifar);
}

TEST(ImageProcessing, keeps_any_mean_and_deviation_in_a_file_and_in_a_recipe) {
  const Normalisation clip{{0.48145466f, 0.4578275f, 0.40821073f}, {0.26862954f, 0.26130258f, 0.27577711f}};
  for (const auto& one : {clip, kUnchanged, kHalf, Normalisation{{-1.5f, 0, 1e6f}, {1e-5f, 1.0f / 3, 3e5f}}}) {
    EXPECT_EQ(parse_processor(processor_json({24, 27, true, one}), "here").normalisation, one);
    EXPECT_EQ(parse_normalisation(normalisation_text(one)), one) << normalisation_text(one);
  }
  EXPECT_NE(processor_json({24, 27, true, clip}).find("0.48145467,"), std::string::npos);
  EXPECT_EQ(normalisation_text(kUnchanged), "none");
  for (const char* text : {"", "Half", "auto", "1,2,3", "1,2,3/", "1,2,3/1,1", "1,2,3/1,1,0", "1,2,3/1,1,-1",
                           "1,2,3/1,1,1,", "1,2,3/1,1,1 ", "nan,2,3/1,1,1", "1,2,inf/1,1,1", "1,2,3,1,1,1"})
    EXPECT_FALSE(parse_normalisation(text)) << text;
}

TEST(ImageProcessing, of_published_vits_makes_the_whole_image_fit) {
  const auto read = parse_processor(R"({"do_normalize": true, "do_resize": true, "image_mean": [0.5, 0.5, 0.5],
      "image_std": [0.5, 0.5, 0.5], "resample": 2, "size": {"height": 224, "width": 224}})",
                                    "here");
  EXPECT_EQ(read.side, 224);
  EXPECT_EQ(read.shorter, 0);
  EXPECT_EQ(read.normalisation, kHalf);
  const Resize how = resize_for(read, {100, 300});
  EXPECT_EQ(how.size, (ImageSize{224, 224}));
  EXPECT_EQ(how.box, (Box{0, 0, 300, 100}));
}

TEST(ImageProcessing, of_published_resnets_cuts_the_middle_out_by_crop_pct) {
  const std::string mean = R"("image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225])";
  for (const std::string form :
       {R"("feature_extractor_type": "ConvNextFeatureExtractor", "size": 32)",
        R"("image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 32})",
        R"("image_processor_type": "ConvNextImageProcessorFast", "size": 32)", R"("size": {"shortest_edge": 32})"}) {
    const auto read = parse_processor("{" + form + R"(, "crop_pct": 0.875, "resample": 3, )" + mean + "}", "here");
    EXPECT_EQ(read.side, 32) << form;
    EXPECT_EQ(read.shorter, 36) << form;
    EXPECT_TRUE(read.bicubic) << form;
    EXPECT_EQ(read.normalisation, kImagenet) << form;
    EXPECT_EQ(resize_for(read, {50, 101}).size, (ImageSize{36, 72})) << form;
  }
}

TEST(ImageProcessing, of_large_convnexts_makes_the_whole_image_fit) {
  for (const char* text : {R"({"image_processor_type": "ConvNextImageProcessor"})",
                           R"({"image_processor_type": "ConvNextImageProcessor", "size": 384, "crop_pct": 0.5})"}) {
    const auto read = parse_processor(text, "here");
    EXPECT_EQ(read.side, 384);
    EXPECT_EQ(read.shorter, 0);
    EXPECT_TRUE(read.bicubic);
    EXPECT_EQ(read.normalisation, kHalf);
  }
}

TEST(ImageProcessing, refuses_what_would_be_other_pixels) {
  for (const char* text : {"[]",
                           "{}",
                           R"({"size": 0})",
                           R"({"size": {"height": 2, "width": 3}})",
                           R"({"size": 8, "resample": 0})",
                           R"({"size": {"shortest_edge": 8}})",
                           R"({"size": 8, "do_resize": false})",
                           R"({"size": 8, "do_center_crop": true})",
                           R"({"size": {"shortest_edge": 8}, "do_center_crop": true, "crop_size": 9})",
                           R"({"size": 8, "image_std": [1, 1]})",
                           R"({"size": 8, "image_std": [0, 1, 1]})",
                           R"({"size": 8, "rescale_factor": 1})",
                           R"({"size": 100000000})",
                           R"({"size": 8, "crop_pct": 0})",
                           R"({"size": 8, "crop_pct": 1.5})",
                           R"({"size": 8, "crop_pct": "1"})",
                           R"({"size": 8, "crop_pct": 1e-300})",
                           R"({"size": {"height": 8, "width": 8}, "crop_pct": 0.9})",
                           R"({"size": 8, "image_processor_type": "EfficientNetImageProcessor"})",
                           R"({"size": 8, "feature_extractor_type": "BeitFeatureExtractor"})"})
    EXPECT_THROW(parse_processor(text, "here"), base::CorruptError) << text;
}

TEST(ImageProcessing, refuses_sizes_that_no_memory_would_hold_by_file_and_field) {
  const std::pair<const char*, const char*> each[] = {
      {R"({"size": 65536})", "size is 65536, and the side of an image is 1 to 4096 pixels"},
      {R"({"size": {"height": 4097, "width": 4097}})", "size.height is 4097"},
      {R"({"size": {"height": 8, "width": 18446744073709551615}})", "size.width is 18446744073709551615"},
      {R"({"size": {"shortest_edge": 5000}, "crop_pct": 0.9})", "size.shortest_edge is 5000"},
      {R"({"size": {"shortest_edge": 65536}, "do_center_crop": true, "crop_size": 65536})", "crop_size is 65536"},
      {R"({"size": {"shortest_edge": 65536}, "do_center_crop": true, "crop_size": {"height": 65536, "width": 65536}})",
       "crop_size.height is 65536"},
      {R"({"size": {"shortest_edge": 100000}, "do_center_crop": true, "crop_size": 8})",
       "size.shortest_edge is 100000"},
      {R"({"size": "large"})", "size is no such number"}};
  for (const auto& [text, what] : each) try {
      parse_processor(text, "here");
      ADD_FAILURE() << text;
    } catch (const base::CorruptError& error) {
      EXPECT_EQ(std::string(error.what()).find(std::string("here: ") + what), 0u) << error.what();
    }
  EXPECT_EQ(parse_processor(R"({"size": 4096})", "here").side, 4096);
}

TEST(ImageProcessing, refuses_means_and_deviations_that_no_pixels_have_by_name) {
  for (const char* key : {"image_mean", "image_std"})
    for (const char* value : {"1e308", "-1e308", "1000001", "-1000001"}) {
      const std::string text = std::string("{\"size\": 8, \"") + key + "\": [0.5, " + value + ", 0.5]}";
      try {
        parse_processor(text, "here");
        ADD_FAILURE() << text;
      } catch (const base::CorruptError& error) {
        EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
      }
    }
  for (const char* text : {R"({"size": 8, "image_mean": [1e999, 0, 0]})", R"({"size": 8, "image_mean": [NaN, 0, 0]})",
                           R"({"size": 8, "image_std": [1, -1, 1]})", R"({"size": 8, "image_std": [1, 1e-300, 1]})"})
    EXPECT_THROW(parse_processor(text, "here"), base::CorruptError) << text;
  EXPECT_EQ(parse_processor(R"({"size": 8, "image_mean": [-3, 0, 255]})", "here").normalisation.mean[2], 255.0f);
}

}  // namespace
}  // namespace hyperion::images

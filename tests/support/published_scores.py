"""Printed tables that scores are checked against: facts, each with its source."""

from places import DATA

CORRUPTIONS = [
    *("gaussian_noise", "shot_noise", "impulse_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
]

NOC = [
    *("noc/quantization", "noc/blur", "noc/vertical_artifacts", "noc/rain"),
    *("noc/border", "noc/shear", "noc/brightness", "noc/hue"),
]


def _rows(text):
    """One row a line: name, then numbers; returned by name."""
    found = {}
    for line in text.strip().splitlines():
        name, *numbers = line.split()
        found[name] = [float(number) for number in numbers]
    return found


# Hendrycks & Dietterich (2018), table 1: clean error, mCE, CE of the 15 corruptions, in percent
CE = _rows("""
AlexNet    43.5 100.0 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100
SqueezeNet 41.8 104.4 107 106 105 100 103 101 100 101 103  97  97  98 106 109 134
VGG-11     31.0  93.5  97  97 100  92  99  93  91  92  91  84  75  86  97 107 100
VGG-19     27.6  88.9  89  91  95  89  98  90  90  89  86  75  68  80  97 102  94
VGG-19-BN  25.8  81.6  82  83  88  82  94  84  86  80  78  69  61  74  94  85  83
ResNet-18  30.2  84.7  87  88  91  84  91  87  89  86  84  78  69  78  90  80  85
ResNet-50  23.9  76.7  80  82  83  75  89  78  80  78  75  66  57  71  85  77  77
""")

# the same, table 2: relative mCE and relative CE
RELATIVE_CE = _rows("""
AlexNet    43.5 100.0 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100
SqueezeNet 41.8 117.9 118 116 114 104 110 106 105 106 110  98 101 100 126 129 229
VGG-11     31.0 123.3 122 121 125 116 129 121 115 114 113  99  86 102 151 161 174
VGG-19     27.6 122.9 114 117 122 118 136 123 122 114 111  88  82  98 165 161 172
VGG-19-BN  25.8 111.1 104 105 114 108 132 114 119 102 100  79  68  89 165 125 144
ResNet-18  30.2 103.9 104 106 111 100 116 108 112 103 101  89  67  87 133  97 126
ResNet-50  23.9 105.0 104 107 107  97 126 107 110 101  97  79  62  89 146 111 132
""")

# AlexNet's errors by severity 1…5: github.com/hendrycks/robustness, issue 10
ALEXNET_BY_SEVERITY = _rows("""
gaussian_noise    .69528 .82542 .93554 .98138 .99452
shot_noise        .71224 .85108 .93574 .98182 .99146
impulse_noise     .78374 .89808 .94870 .98720 .99548
defocus_blur      .65624 .73202 .85036 .91364 .94714
glass_blur        .64308 .75054 .88806 .91622 .93344
motion_blur       .58430 .70048 .82108 .89750 .92638
zoom_blur         .70008 .76992 .80784 .84198 .87198
snow              .71726 .88392 .86468 .91870 .94952
frost             .61390 .79734 .88790 .89942 .93430
fog               .67474 .76050 .84378 .87260 .94500
brightness        .45140 .48502 .54048 .62166 .72440
contrast          .64548 .76150 .88874 .97760 .99270
elastic_transform .52596 .70116 .55686 .64076 .80554
pixelate          .52218 .54620 .73728 .87092 .91262
jpeg_compression  .51002 .54718 .57294 .65458 .74778
""")

# Top-1 accuracy in percent: clean, then the 15 corruptions; mCE as printed there.
# github.com/bethgelab/game-of-noise, Results/ at f220bd4 (ANT-SIN at 82423a1)
ACCURACY = _rows("""
ResNet-50 76.13 29.29 27.03 23.81 38.75 26.79 38.67 36.24 32.53 38.14 45.83 68.02 39.06 45.25 44.79 53.41
Speckle   75.83 54.93 58.07 49.03 42.55 31.63 39.86 36.48 34.05 41.21 45.55 67.98 40.59 46.96 48.67 57.90
ANT       76.07 64.77 65.73 63.95 47.02 36.98 43.30 40.56 36.71 45.50 44.20 69.66 42.12 48.89 54.65 62.36
ANT+SIN   74.87 64.45 64.99 63.45 46.47 37.54 45.84 39.25 42.07 46.86 48.98 68.91 46.51 50.23 57.41 60.09
""")  # noqa: E501
PRINTED_MCE = {"ResNet-50": 76.70, "Speckle": 68.33, "ANT": 62.51, "ANT+SIN": 61.20}
PRINTED_RELATIVE_MCE = {"ResNet-50": 105.0, "ANT": 73.7, "ANT+SIN": 67.4}

# The paper on ImageNet-NOC. Scores are relative CE in percent, the printed mean comes last.
NOC_TABLE_4 = _rows("""
Standard    130 60 95  93 53 87 71 58 81
SIN+         85 55 74  86 56 82 61 49 68
Augmix       51 13 72  90 49 71 62 56 58
ANT3x3       85 56 80 109 58 76 67 55 73
DeepAugment  65 25 69  93 61 67 46 43 59
""")
# the last column of table 4, which is called the same and is plain mCE
NOC_TABLE_4_PLAIN = {"Standard": 77, "SIN+": 69, "Augmix": 65, "ANT3x3": 63, "DeepAugment": 60}

NOC_TABLE_5 = _rows("""
AlexNet         100 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100
SqueezeNet      118 116 114 104 110 106 105 106 110  98 101 100 126 129 229 118
VGG-11          122 121 125 116 129 121 115 114 113  99  86 102 151 161 174 123
VGG-19-BN       104 105 114 108 132 114 119 102 100  79  68  89 165 125 144 111
ResNet-18       104 106 111 100 116 108 112 103 101  89  67  87 133  97 126 104
ResNet-50       104 107 107  97 126 107 110 101  97  79  62  89 146 111 132 105
DenseNet-121     84  87  89  97 120 101 104  91  87  61  50  66 147  97 122  94
DenseNet-201     82  87  87  91 116 100 107  85  82  63  45  62 136  80 113  89
WideResNet-50-2  91  93  97  93 123 103 109 104  95  81  65  89 146  99 126 101
""")

NOC_TABLE_6 = _rows("""
AlexNet         100 100 100 100 100 100 100 100 100
SqueezeNet      143  97 109 111  93  99 109  86 106
VGG-11          193  90 156  94  70 107  92  77 110
VGG-19-BN       175  70 113  77  55  91  71  53  88
ResNet-18       128  68 103  84  69  92  80  64  86
ResNet-50       130  60  95  93  53  87  71  58  81
DenseNet-121    101  58  98  89  55  72  57  54  73
DenseNet-201     89  54  86  84  49  69  52  50  66
WideResNet-50-2 112  59  97  92  35  96  72  58  78
""")

NOC_TABLE_7 = _rows("""
Standard 121 119 122 147 121 118 107 97 109  98  94 116 68 79 56 104
Gauss      6   9   8 122  88 100  95 87  93 125 107 129 58 19 15  71
Shot      10   6   9 125  92 102  96 84  94 126 103 128 59 20 16  71
Impul     10  11   4 123  88  99  96 91  93 127 102 129 54 17 14  71
Defo      62  62  63   6  25  36  34 76  77  82  91  93 46  2 50  54
Glass     74  73  74  24   8  32  30 81  81  83  95  99 34  2 55  56
Motion    92  92  92  55  41   6  26 76  94  73  97  93 42 10 53  63
Zoom      98  98  99  60  50  31   6 88  97  77 101  98 45 24 51  68
Snow     114 113 118 115  91  87  87  5  74  97  84 117 54 40 52  83
Frost    109 111 112 118  87  99  89 40   9  69  60 108 57 28 84  79
Fog      117 116 118 136 115 100  86 76  79   2  58  57 73 88 72  86
Bright   108 111 110 142 113 112 104 86  88  75   7 100 72 60 55  89
Contr     96  98 100 131 103  97  87 82  76  50  72   2 66 53 50  78
Elastic  124 122 125 127  92  91  72 92 110  98 104 118 19 22 61  92
Pixel     99  98 102 129  87  96  93 93  95  90  86 108 53  5 42  85
Jpeg      86  86  88 143 110 118 113 98 102 120 101 129 66 32 11  94
""")

NOC_TABLE_8 = _rows("""
Standard   87 122 77 71 67  79 117  88 89
Quant       9 125 77 90 70  90 124  80 83
Blur       79   7 61 72 82  90 132 106 79
Vert-Arti  79 133  4 63 80  84 119 104 83
Rain       86 131 78  2 73  82 115  97 83
Border     89 123 71 73  8  74 118  89 81
Shear     129 127 65 85 75   6 133 102 90
Bright     75 125 78 77 73  92  21  89 79
Hue        83 139 91 96 74 101 116   1 88
""")

NOC_TABLE_1 = _rows("""
Standard-IC   120 119 121 147 121 117 107 97 108 97 93 115 67 78 56 104
m_INOC         92  94  93 102 112  86  78 69  81 67 41  97 63 71 53  81
Standard-INOC  87 122  77  71  67  79 117 88  89
m_IC           44  15  39  58  79  49  72 117 59
""")

# tables 2a and 2b: mCE of models trained with one corruption each; printed spread
NOC_TABLE_2A = [71, 71, 71, 54, 56, 63, 68, 83, 79, 86, 89, 78, 92, 85, 94]
NOC_TABLE_2B = [83, 79, 83, 83, 81, 90, 79, 88]


def robustbench_names():
    """The file names of RobustBench's 5,000 images."""
    text = (DATA / "robustbench_images.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [f"ILSVRC2012_val_{int(own):08d}.JPEG" for line in lines for own in line.split()]


# robustbench.github.io: clean accuracy, ImageNet-C accuracy and mCE, 3DCC accuracy and mCE
ROBUSTBENCH = _rows("""
AlexNet                56.24 21.12 100.0 28.47 100.0
Erichson2022NoisyMix   76.98 52.47 60.46 55.79 61.67
Geirhos2018_SIN        60.08 39.92 76.67 40.46  84.1
Geirhos2018_SIN_IN_IN  77.56  42.0 73.19 49.03 70.53
Hendrycks2020AugMix    77.34 49.33 64.17 53.48 64.64
Salman2020Do_50_2_Linf 68.64 36.09  80.0 41.86 80.51
Standard_R50           76.72 39.48 76.38 47.12 73.16
Tian2022Deeper_DeiT-B  81.38 67.55  41.7  65.9 47.97
""")

# section 3 of Hendrycks & Dietterich (2018), in the text: clean error and mCE in percent
IN_TEXT = {
    "CondenseNet (C=G=4)": (26.3, 80.8), "CondenseNet (C=G=8)": (28.9, 84.6),
    "ResNet-50 + CLAHE": (23.55, 74.5), "Multigrid": (24.6, 73.3), "MSDNet": (24.6, 73.6),
    "DenseNet-121": (25.6, 73.4), "DenseNet-161": (22.9, 66.4),
    "ResNeXt-50": (22.9, 68.2), "ResNeXt-101": (21.0, 62.2),
}  # fmt: skip

# the paper on VCR, table 3: R_a, HMRI_a, MRSI_a, R_p, HMRI_p, MRSI_p before and after retraining
VCR_TABLE_3 = {
    ("Standard_R50", "median_blur"): (
        (0.532, 0.635, 0.000, 0.573, 0.673, 0.000), (0.694, 0.828, 0.003, 0.728, 0.854, 0.001)),
    ("Standard_R50", "frost"): (
        (0.429, 0.521, 0.011, 0.473, 0.572, 0.012), (0.575, 0.690, 0.025, 0.678, 0.804, 0.031)),
    ("Standard_R50", "glass_blur"): (
        (0.468, 0.569, 0.003, 0.502, 0.603, 0.003), (0.647, 0.770, 0.024, 0.744, 0.866, 0.034)),
    ("SIN", "median_blur"): (
        (0.522, 0.624, 0.00, 0.605, 0.710, 0.00), (0.650, 0.774, 0.004, 0.729, 0.852, 0.004)),
    ("SIN", "frost"): (
        (0.423, 0.512, 0.015, 0.513, 0.618, 0.016), (0.517, 0.625, 0.016, 0.647, 0.768, 0.031)),
    ("SIN", "glass_blur"): (
        (0.334, 0.407, 0.000, 0.397, 0.478, 0.000), (0.572, 0.687, 0.016, 0.684, 0.809, 0.018)),
}  # fmt: skip

# the paper on VCR, table 2: coverage of visual change by ImageNet-C and by the VCR test sets
VCR_COVERAGE = {
    "brightness": (0.590, 1.000), "gaussian_blur": (0.564, 0.974), "defocus_blur": (0.538, 0.923),
    "shot_noise": (0.462, 0.590), "frost": (0.436, 1.000), "gaussian_noise": (0.436, 0.872),
    "impulse_noise": (0.385, 0.641), "motion_blur": (0.333, 0.974), "glass_blur": (0.333, 0.949),
}  # fmt: skip

# section 4 of Hendrycks & Dietterich (2018): accuracy in percent on what was held out
ICONS_50 = {"Microsoft": 57, "Apple": 93, "50 subclasses": 60.4}
CIFAR_100 = {"1 of 5": 40.9, "2 of 5": 26.78, "3 of 5": 25.3}

package schema

import "sort"

// collationRange says that the collations from a number on, up to the next range's, are
// of a charset.
type collationRange struct {
	from    uint64
	charset string
}

// collationRanges is information_schema.collations of MySQL 9.7 and of MariaDB 10.11
// in one: they don't contradict each other. It is only read.
var collationRanges = [...]collationRange{
	{1, "big5"}, {2, "latin2"}, {3, "dec8"}, {4, "cp850"}, {5, "latin1"}, {6, "hp8"}, {7, "koi8r"}, {8, "latin1"}, {9, "latin2"},
	{10, "swe7"}, {11, "ascii"}, {12, "ujis"}, {13, "sjis"}, {14, "cp1251"}, {15, "latin1"}, {16, "hebrew"}, {18, "tis620"},
	{19, "euckr"}, {20, "latin7"}, {21, "latin2"}, {22, "koi8u"}, {23, "cp1251"}, {24, "gb2312"}, {25, "greek"}, {26, "cp1250"},
	{27, "latin2"}, {28, "gbk"}, {29, "cp1257"}, {30, "latin5"}, {31, "latin1"}, {32, "armscii8"}, {33, "utf8mb3"}, {34, "cp1250"},
	{35, "ucs2"}, {36, "cp866"}, {37, "keybcs2"}, {38, "macce"}, {39, "macroman"}, {40, "cp852"}, {41, "latin7"}, {43, "macce"},
	{44, "cp1250"}, {45, "utf8mb4"}, {47, "latin1"}, {50, "cp1251"}, {53, "macroman"}, {54, "utf16"}, {56, "utf16le"},
	{57, "cp1256"}, {58, "cp1257"}, {60, "utf32"}, {62, "utf16le"}, {63, "binary"}, {64, "armscii8"}, {65, "ascii"}, {66, "cp1250"},
	{67, "cp1256"}, {68, "cp866"}, {69, "dec8"}, {70, "greek"}, {71, "hebrew"}, {72, "hp8"}, {73, "keybcs2"}, {74, "koi8r"},
	{75, "koi8u"}, {76, "utf8mb3"}, {77, "latin2"}, {78, "latin5"}, {79, "latin7"}, {80, "cp850"}, {81, "cp852"}, {82, "swe7"},
	{83, "utf8mb3"}, {84, "big5"}, {85, "euckr"}, {86, "gb2312"}, {87, "gbk"}, {88, "sjis"}, {89, "tis620"}, {90, "ucs2"},
	{91, "ujis"}, {92, "geostd8"}, {94, "latin1"}, {95, "cp932"}, {97, "eucjpms"}, {99, "cp1250"}, {101, "utf16"}, {128, "ucs2"},
	{160, "utf32"}, {192, "utf8mb3"}, {224, "utf8mb4"}, {248, "gb18030"}, {255, "utf8mb4"}, {576, "utf8mb3"}, {608, "utf8mb4"},
	{640, "ucs2"}, {672, "utf16"}, {736, "utf32"}, {1025, "big5"}, {1027, "dec8"}, {1028, "cp850"}, {1030, "hp8"}, {1031, "koi8r"},
	{1032, "latin1"}, {1033, "latin2"}, {1034, "swe7"}, {1035, "ascii"}, {1036, "ujis"}, {1037, "sjis"}, {1040, "hebrew"},
	{1042, "tis620"}, {1043, "euckr"}, {1046, "koi8u"}, {1048, "gb2312"}, {1049, "greek"}, {1050, "cp1250"}, {1052, "gbk"},
	{1054, "latin5"}, {1056, "armscii8"}, {1057, "utf8mb3"}, {1059, "ucs2"}, {1060, "cp866"}, {1061, "keybcs2"}, {1062, "macce"},
	{1063, "macroman"}, {1064, "cp852"}, {1065, "latin7"}, {1067, "macce"}, {1069, "utf8mb4"}, {1071, "latin1"}, {1074, "cp1251"},
	{1077, "macroman"}, {1078, "utf16"}, {1080, "utf16le"}, {1081, "cp1256"}, {1082, "cp1257"}, {1084, "utf32"}, {1086, "utf16le"},
	{1088, "armscii8"}, {1089, "ascii"}, {1090, "cp1250"}, {1091, "cp1256"}, {1092, "cp866"}, {1093, "dec8"}, {1094, "greek"},
	{1095, "hebrew"}, {1096, "hp8"}, {1097, "keybcs2"}, {1098, "koi8r"}, {1099, "koi8u"}, {1101, "latin2"}, {1102, "latin5"},
	{1103, "latin7"}, {1104, "cp850"}, {1105, "cp852"}, {1106, "swe7"}, {1107, "utf8mb3"}, {1108, "big5"}, {1109, "euckr"},
	{1110, "gb2312"}, {1111, "gbk"}, {1112, "sjis"}, {1113, "tis620"}, {1114, "ucs2"}, {1115, "ujis"}, {1116, "geostd8"},
	{1119, "cp932"}, {1121, "eucjpms"}, {1125, "utf16"}, {1152, "ucs2"}, {1184, "utf32"}, {1216, "utf8mb3"}, {1248, "utf8mb4"},
	{2048, "utf8mb3"}, {2304, "utf8mb4"}, {2560, "ucs2"}, {2816, "utf16"}, {3072, "utf32"},
}

// CollationCharset gives the charset of a collation by the number that the binlog has;
// "" for 0.
func CollationCharset(number uint64) string {
	i := sort.Search(len(collationRanges), func(i int) bool { return collationRanges[i].from > number })
	if i == 0 {
		return ""
	}
	return collationRanges[i-1].charset
}

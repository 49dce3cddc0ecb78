package api

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Milli is an amount of a scalar resource in thousandths: 1500 of cpus are one
// and a half processors, 1000 of mem or disk are one MB (2^20 bytes). Whole
// numbers, so that sums are exact.
type Milli int64

// MilliMax is the largest amount of one resource. Sums of a million stay in range.
const MilliMax Milli = 1e12

// MilliOf rounds x to thousandths. For constants in code and tests; input from
// people goes through [ParseMilli].
func MilliOf(x float64) Milli { return Milli(math.Round(x * 1000)) }

// Float returns the amount in whole units, for display and ratios only.
func (m Milli) Float() float64 { return float64(m) / 1000 }

// String writes the amount in units with at most three decimals: "1.5", "-0.001".
func (m Milli) String() string {
	sign := ""
	whole := uint64(m)
	if m < 0 {
		sign, whole = "-", -whole
	}
	text := sign + strconv.FormatUint(whole/1000, 10)
	if rest := whole % 1000; rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%03d", rest), "0")
	}
	return text
}

// ParseMilli reads a non-negative decimal number with at most three decimals.
func ParseMilli(text string) (Milli, error) {
	refuse := func(why string) (Milli, error) {
		return 0, fmt.Errorf("%q is %s; write a number such as 2, 0.5 or 0.125", text, why)
	}
	whole, rest, _ := strings.Cut(strings.TrimSpace(text), ".")
	switch {
	case strings.HasPrefix(whole, "-"):
		return refuse("negative")
	case whole == "" && rest == "", strings.Trim(whole+rest, "0123456789") != "":
		return refuse("not a number")
	case len(strings.TrimRight(rest, "0")) > 3:
		return refuse("finer than thousandths")
	}
	digits := whole + (strings.TrimRight(rest, "0") + "000")[:3]
	value, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || Milli(value) > MilliMax {
		return refuse("larger than " + MilliMax.String())
	}
	return Milli(value), nil
}

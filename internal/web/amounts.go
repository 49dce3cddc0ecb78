package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// usedOf returns how much of a kind is really used; only processors and memory are measured.
func usedOf(usage *apiv1.Usage, kind string) float64 {
	switch kind {
	case "cpus":
		return float64(usage.GetCpuMilli()) / 1000
	case "mem":
		return float64(usage.GetMemMilli()) / 1000
	}
	return 0
}

// resourcesText returns text such as "cpus 4, mem 4 GB": the usual kinds first, then by name.
func resourcesText(resources *structpb.Struct) string {
	fields, names := resources.GetFields(), wire.ResourceNames(resources)
	parts := make([]string, len(names))
	for i, name := range names {
		if text, is := fields[name].GetKind().(*structpb.Value_StringValue); is {
			parts[i] = name + " " + text.StringValue
			continue
		}
		bare, _, _ := strings.Cut(name, "(")
		parts[i] = name + " " + amountText(bare, fields[name].GetNumberValue())
	}
	return strings.Join(parts, ", ")
}

// amountText writes an amount as people say it: memory and disk come in MB.
func amountText(kind string, amount float64) string {
	if kind == "mem" || kind == "disk" {
		for _, unit := range []string{"MB", "GB"} {
			if amount < 1024 {
				return short(amount) + " " + unit
			}
			amount /= 1024
		}
		return short(amount) + " TB"
	}
	return short(amount)
}

// short writes a number with no more digits than one reads.
func short(amount float64) string {
	digits := 2
	switch {
	case amount < 0.1:
		digits = 3
	case amount >= 1000:
		return grouped(int(math.Round(amount)))
	case amount >= 100:
		digits = 0
	case amount >= 10:
		digits = 1
	}
	text := strconv.FormatFloat(amount, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// percent writes a share of a whole.
func percent(some, whole float64) string {
	if whole <= 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.0f %%", 100*some/whole)
}

// grouped writes a count with commas.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// timeOf returns a time; zero: there is none.
func timeOf(at *timestamppb.Timestamp) time.Time {
	if at == nil || at.AsTime().Unix() <= 0 {
		return time.Time{}
	}
	return at.AsTime()
}

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tenderhq/tender/examples/rdd"
)

var having = rdd.FilterWith("having", func(what, line string) bool { return strings.Contains(line, what) })

// logsearch caches a log and answers a question for each line of its input: how many lines of the log contain this
// text, and which are the first?
func logsearch(flags *flag.FlagSet) func(context.Context, *rdd.Context, io.Writer) error {
	most := flags.Int("most", 3, "`number` of lines to show")
	return func(ctx context.Context, c *rdd.Context, out io.Writer) error {
		lines := rdd.TextFiles(c, flags.Args()...).Cache()
		total, err := lines.Count(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%d lines; what do you look for?\n", total)
		for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
			if err := search(ctx, lines, out, asked.Text(), *most); err != nil {
				return err
			}
		}
		return nil
	}
}

func search(ctx context.Context, lines rdd.Dataset[string], out io.Writer, what string, most int) error {
	begun := time.Now()
	found := having.With(what).On(lines)
	n, err := found.Count(ctx)
	if err != nil {
		return err
	}
	first, err := found.Take(ctx, most)
	for _, line := range first {
		fmt.Fprintln(out, "  "+line)
	}
	fmt.Fprintf(out, "lines with %q: %d; %.3f s\n", what, n, time.Since(begun).Seconds())
	return err
}

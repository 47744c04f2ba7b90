package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// outputFlag adds -o to a command that lists something.
func outputFlag(c *cobra.Command) *choice {
	o := oneOf("table", "json")
	c.Flags().VarP(o, "output", "o", "how to print")
	return o
}

// shows is what a command does that asks the cluster one thing and prints it.
func shows[V any](s streams, f *clientFlags, output *choice, ask func(*session, context.Context) (V, error),
	print func(io.Writer, V) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		ctx, cancel := ses.bound(cmd.Context())
		defer cancel()
		v, err := ask(ses, ctx)
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(s.out, v)
		}
		return print(s.out, v)
	}
}

// writeJSON prints one document.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table is rows of text in aligned columns.
type table struct {
	head []string
	rows [][]string
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
		if row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// print writes the table, without its head when there are no rows. Lines have no blanks at their end.
func (t *table) print(w io.Writer) error {
	if len(t.rows) == 0 {
		return nil
	}
	var text strings.Builder
	tw := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		if len(row) > 0 {
			fmt.Fprintln(tw, strings.Join(row, "\t"))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// joinInts gives numbers with commas between.
func joinInts[T ~int32 | ~int64 | ~int](ns []T) string {
	var b strings.Builder
	for i, n := range ns {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(int64(n), 10))
	}
	return b.String()
}

// sizeText gives a number of bytes for a person.
func sizeText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

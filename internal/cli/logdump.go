package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newLog(s streams) *cobra.Command {
	var d dump
	c := &cobra.Command{
		Use:   "dump FILE|DIRECTORY...",
		Short: "Print and verify the files of a log",
		Long: `Print and verify the files of a log: segments, their indexes, snapshots, checkpoints and the metadata log, Moldau's or
Apache Kafka's. No broker is needed; a file that a running broker writes to may show an unfinished end.

Of a segment every batch is checked: its checksum, its records, that offsets and epochs rise, and that the indexes beside
it say what the batches say. What is wrong begins with DAMAGE, and then the exit status is 1.`,
		Example: `  moldau log dump moldau-data/orders-0
  moldau log dump --records moldau-data/orders-0/00000000000000000000.log
  moldau log dump moldau-data/__cluster_metadata-0/*.log -o json`,
		Args: args(1, -1, "a file or directory"),
	}
	output := oneOf("text", "json")
	c.Flags().VarP(output, "output", "o", "how to print: a line of text or of JSON for each thing")
	c.Flags().BoolVarP(&d.records, "records", "r", false, "print every record (of the metadata log they always are)")
	c.Flags().BoolVarP(&d.quiet, "quiet", "q", false, "print only what is damaged")
	c.RunE = func(cmd *cobra.Command, names []string) error {
		out := bufio.NewWriterSize(s.out, 64<<10)
		d.out, d.json, d.ctx = out, output.value == "json", cmd.Context()
		err := d.run(names)
		if flushErr := out.Flush(); err == nil {
			err = flushErr
		}
		return err
	}
	return group("log", "Look into the files of a log", c)
}

// field is one named value of a line.
type field struct {
	name  string
	value any
}

// dump prints files and counts what is wrong with them.
type dump struct {
	records, quiet, json bool

	out     *bufio.Writer
	ctx     interface{ Err() error }
	file    string
	files   int
	damages int
	checked map[string]bool // segments whose own dump checks the indexes beside them
}

func (d *dump) run(names []string) error {
	files, err := d.expand(names)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s holds no file of a log", strings.Join(names, ", "))
	}
	d.checked = map[string]bool{}
	for _, f := range files {
		if filepath.Ext(f) == ".log" {
			d.checked[f] = true
		}
	}
	for _, f := range files {
		if err := d.dumpFile(f); err != nil {
			return fmt.Errorf("%s: %w", f, plain(err))
		}
		if d.ctx.Err() != nil {
			return d.ctx.Err()
		}
	}
	if d.damages > 0 {
		return fmt.Errorf("%s in %s; DAMAGE lines say where", count(d.damages, "damaged place"), count(d.files, "file"))
	}
	return nil
}

// expand puts in place of a directory the files in it, not those in directories below.
func (d *dump) expand(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, plain(err)
		}
		if !info.IsDir() {
			if d.kind(name) == nil {
				return nil, fmt.Errorf("%s is no file of a log: it would be named like 00000000000000000000.log, .index, "+
					".timeindex, .txnindex, .snapshot or .checkpoint, or be a checkpoint", name)
			}
			files = append(files, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, plain(err)
		}
		for _, e := range entries {
			if path := filepath.Join(name, e.Name()); !e.IsDir() && d.kind(path) != nil {
				files = append(files, path)
			}
		}
	}
	return files, nil
}

// dumpFile prints one file.
func (d *dump) dumpFile(name string) error {
	d.file = name
	d.files++
	if !d.quiet && !d.json {
		fmt.Fprintf(d.out, "%s\n", name)
	}
	return d.kind(name)(name)
}

// offsetName matches what is named by an offset, a snapshot of the metadata log by its epoch too.
var offsetName = regexp.MustCompile(`^\d{20}(-\d{10})?$`)

// kind gives what dumps a file of such a name, nil for nothing.
func (d *dump) kind(path string) func(string) error {
	base := filepath.Base(path)
	for _, suffix := range []string{".deleted", ".cleaned", ".swap"} {
		base = strings.TrimSuffix(base, suffix)
	}
	ext := filepath.Ext(base)
	if !offsetName.MatchString(strings.TrimSuffix(base, ext)) {
		return d.smallFile(base)
	}
	switch ext {
	case ".log":
		return d.segment
	case ".checkpoint":
		return d.metadataSnapshot
	case ".index":
		return d.offsetIndex
	case ".timeindex":
		return d.timeIndex
	case ".txnindex":
		return d.txnIndex
	case ".snapshot":
		return d.producerSnapshot
	}
	return nil
}

// emit prints one thing.
func (d *dump) emit(what string, fields ...field) {
	if !d.quiet {
		d.print(what, fields)
	}
}

func (d *dump) print(what string, fields []field) {
	if d.json {
		fields = append([]field{{"type", what}, {"file", d.file}}, fields...)
		for i, f := range fields {
			sep := byte(',')
			if i == 0 {
				sep = '{'
			}
			d.out.WriteByte(sep)
			fmt.Fprintf(d.out, "%q:", f.name)
			d.out.Write(jsonOf(f.value))
		}
		d.out.WriteString("}\n")
		return
	}
	d.out.WriteString("  " + what)
	for _, f := range fields {
		switch v := f.value.(type) {
		case json.RawMessage:
			fmt.Fprintf(d.out, " %s", v)
		case []byte:
			b, b64 := toJSON(v)
			if b64 != nil {
				b = fmt.Appendf(nil, "base64:%s", *b64)
			}
			fmt.Fprintf(d.out, " %s=%s", f.name, b)
		default:
			fmt.Fprintf(d.out, " %s=%v", f.name, v)
		}
	}
	d.out.WriteByte('\n')
}

// jsonOf gives a value as JSON; bytes that are no text become {"base64":"..."}.
func jsonOf(v any) []byte {
	switch v := v.(type) {
	case json.RawMessage:
		return v
	case []byte:
		text, b64 := toJSON(v)
		if b64 != nil {
			return fmt.Appendf(nil, `{"base64":%q}`, *b64)
		}
		return text
	case fmt.Stringer:
		return jsonOf(v.String())
	}
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return b
}

// damage reports something wrong.
func (d *dump) damage(format string, args ...any) {
	d.damages++
	what := fmt.Sprintf(format, args...)
	if d.json {
		d.print("damage", []field{{"what", what}})
		return
	}
	if d.quiet {
		fmt.Fprintf(d.out, "DAMAGE %s: %s\n", d.file, what)
		return
	}
	fmt.Fprintf(d.out, "  DAMAGE %s\n", what)
}

// entries reads a file of entries of one size and hands each to f until it says false. Zeros at the end are room that
// was taken beforehand; a part of an entry at the end is damage.
func (d *dump) entries(name string, size int, f func(i int, entry []byte) bool) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if rest := len(data) % size; rest != 0 {
		d.damage("%d bytes behind the last whole entry", rest)
		data = data[:len(data)-rest]
	}
	i := 0
	for e := range slices.Chunk(data, size) {
		if zeros(data[i*size:]) {
			d.emit("unused", field{"bytes", len(data) - i*size})
			return nil
		}
		if !f(i, e) {
			return nil
		}
		i++
	}
	return nil
}

func zeros(b []byte) bool {
	for len(b) > 0 {
		if b[0] != 0 {
			return false
		}
		b = b[1:]
	}
	return true
}

// segmentBeside gives the segment that an index belongs to, "" when it is not there or is checked by itself.
func (d *dump) segmentBeside(name string) string {
	path := strings.TrimSuffix(name, filepath.Ext(name)) + ".log"
	if _, err := os.Stat(path); err != nil || d.checked[path] {
		return ""
	}
	return path
}

// missing says whether a file is not there.
func missing(err error) bool { return errors.Is(err, os.ErrNotExist) }

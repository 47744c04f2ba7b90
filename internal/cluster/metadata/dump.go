package metadata

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// Dump gives a record as one line of JSON, in the form of Kafka's dump tool: {"type":"TOPIC_RECORD","version":0,
// "data":{"name":"a","topicId":".."}}. Tagged fields that have their default value are left out. Secrets are not
// hidden, neither here nor there: the keys of SCRAM credentials and the values of password configs are printed.
func Dump(r Record, version int16) string {
	d := dumper{version: version}
	d.buf = append(d.buf, `{"type":`...)
	d.string(r.Type().String())
	d.buf = append(d.buf, `,"version":`...)
	d.buf = strconv.AppendInt(d.buf, int64(version), 10)
	d.buf = append(d.buf, `,"data":`...)
	d.begin()
	r.fields(&d, version)
	d.end()
	return string(append(d.buf, '}'))
}

// dumper is the visitor that writes JSON.
type dumper struct {
	buf     []byte
	version int16
}

func (*dumper) reads() bool { return false }

// member starts the next element of the object or array that is open.
func (d *dumper) member(name string) {
	if last := d.buf[len(d.buf)-1]; last != '{' && last != '[' && last != ':' {
		d.buf = append(d.buf, ',')
	}
	if name != "" {
		d.string(name)
		d.buf = append(d.buf, ':')
	}
}

func (d *dumper) string(s string) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	d.buf = append(d.buf, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}

func (d *dumper) integer(name string, _ width, n int64) int64 {
	d.member(name)
	d.buf = strconv.AppendInt(d.buf, n, 10)
	return n
}

// float writes a number as Java prints it: always with a fraction, and with an exponent from 10^7 on and below 10^-3.
func (d *dumper) float(name string, f float64) float64 {
	d.member(name)
	switch size := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		d.string(strings.Replace(strconv.FormatFloat(f, 'g', -1, 64), "Inf", "Infinity", 1))
	case size != 0 && (size < 1e-3 || size >= 1e7):
		digits, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E")
		n, _ := strconv.Atoi(exponent)
		d.buf = append(d.buf, withFraction(digits)+"E"+strconv.Itoa(n)...)
	default:
		d.buf = append(d.buf, withFraction(strconv.FormatFloat(f, 'f', -1, 64))...)
	}
	return f
}

func withFraction(number string) string {
	if strings.Contains(number, ".") {
		return number
	}
	return number + ".0"
}

func (d *dumper) boolean(name string, b bool) bool {
	d.member(name)
	d.buf = strconv.AppendBool(d.buf, b)
	return b
}

func (d *dumper) text(name, s string) string {
	d.member(name)
	d.string(s)
	return s
}

func (d *dumper) nullableText(name string, s *string) *string {
	d.member(name)
	if s == nil {
		d.buf = append(d.buf, "null"...)
	} else {
		d.string(*s)
	}
	return s
}

func (d *dumper) blob(name string, b []byte) []byte {
	d.member(name)
	d.string(base64.StdEncoding.EncodeToString(b))
	return b
}

func (d *dumper) uuid(name string, u kafka.UUID) kafka.UUID {
	d.member(name)
	d.string(u.String())
	return u
}

// array never sees null: nullable arrays are tagged fields with null as their default.
func (d *dumper) array(name string, n int, _ bool, _ int) int {
	d.member(name)
	d.buf = append(d.buf, '[')
	return n
}

func (d *dumper) endArray() { d.buf = append(d.buf, ']') }

func (d *dumper) begin() {
	if len(d.buf) > 0 {
		d.member("")
	}
	d.buf = append(d.buf, '{')
}

func (d *dumper) end() { d.buf = append(d.buf, '}') }

func (d *dumper) tagged(_ uint32, since int16, present bool, body func()) {
	if present && d.version >= since {
		body()
	}
}

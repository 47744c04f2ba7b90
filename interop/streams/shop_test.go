package streams

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/committed"
)

//go:embed Shop.java
var shopProgram []byte

const (
	customers = 200
	tierNames = 10
	paired    = 200 * time.Millisecond // an order and a payment so close to each other are a pair
	window    = 5 * time.Second
)

// order is what Shop.java is told, and what it should find out.
type order struct {
	customer, amount int
	at               time.Time
	tier             string
}

// shop is the input, and the output computed from it at once.
type shop struct {
	tiers, events []*kgo.Record // changes of the table; orders and payments
	orders        []order
	pairs         map[string]bool   // "order payment"
	totals        map[string][2]int // count and sum by "tier@window"
}

// newShop makes records, one each millisecond of a time that has passed.
func newShop(rnd *rand.Rand, records int) *shop {
	s := &shop{pairs: map[string]bool{}, totals: map[string][2]int{}}
	tierOf, payments := map[int]string{}, map[int][]order{} // both by customer; the tier of a payment is its name
	start := time.Now().Add(-30*time.Minute - time.Duration(records)*time.Millisecond).Truncate(time.Millisecond)
	add := func(to *[]*kgo.Record, topic string, c int, at time.Time, value string) {
		*to = append(*to, &kgo.Record{Topic: topic, Key: fmt.Append(nil, "c", c), Value: []byte(value), Timestamp: at})
	}
	for i := range records {
		c, at := rnd.IntN(customers), start.Add(time.Duration(i)*time.Millisecond)
		switch k := rnd.IntN(100); {
		case k == 0:
			tierOf[c] = fmt.Sprint("t", rnd.IntN(tierNames))
			add(&s.tiers, "customers", c, at, tierOf[c])
		case k < 50:
			id := fmt.Sprint("p", i)
			payments[c] = append(payments[c], order{at: at, tier: id})
			add(&s.events, "payments", c, at, id)
		default:
			o := order{customer: c, amount: rnd.IntN(1000), at: at, tier: tierOf[c]}
			if o.tier == "" {
				o.tier = "none"
			}
			add(&s.events, "orders", c, at, fmt.Sprint(len(s.orders), " ", o.amount))
			s.orders = append(s.orders, o)
		}
	}
	s.compute(payments)
	return s
}

// compute finds pairs and totals from the whole input.
func (s *shop) compute(payments map[int][]order) {
	for id, o := range s.orders {
		all := payments[o.customer]
		for len(all) > 0 && all[0].at.Before(o.at.Add(-paired)) {
			all = all[1:]
		}
		payments[o.customer] = all // orders are in the order of time: what is behind stays behind
		for _, p := range all {
			if p.at.After(o.at.Add(paired)) {
				break
			}
			s.pairs[fmt.Sprint(id, " ", p.tier)] = true
		}
		key := fmt.Sprint(o.tier, "@", o.at.UnixMilli()/window.Milliseconds()*window.Milliseconds())
		total := s.totals[key]
		s.totals[key] = [2]int{total[0] + 1, total[1] + o.amount}
	}
}

// shopped judges the output of the program record by record.
type shopped struct {
	*shop
	rated []bool
	paid  map[string]bool
	sums  map[string][2]int
}

func (s *shopped) take(r *kgo.Record) error {
	f := strings.Fields(string(r.Value))
	numbers := func() (a, b int) { a, _ = strconv.Atoi(f[0]); b, _ = strconv.Atoi(f[1]); return a, b }
	switch r.Topic {
	case "rated":
		id, _ := numbers()
		if s.rated[id] || f[2] != s.orders[id].tier || string(r.Key) != fmt.Sprint("c", s.orders[id].customer) {
			return fmt.Errorf("order %q of %s (come before: %v), want %+v", r.Value, r.Key, s.rated[id], s.orders[id])
		}
		s.rated[id] = true
	case "paid":
		pair := f[0] + " " + f[2]
		if s.paid[pair] || !s.pairs[pair] {
			return fmt.Errorf("pair %q (come before: %v, wanted: %v)", r.Value, s.paid[pair], s.pairs[pair])
		}
		s.paid[pair] = true
	case "totals":
		count, sum := numbers()
		if before := s.sums[string(r.Key)]; count != before[0]+1 || sum < before[1] {
			return fmt.Errorf("total of %s is %q after %v", r.Key, r.Value, before)
		}
		s.sums[string(r.Key)] = [2]int{count, sum}
	}
	return nil
}

// TestShop: a join with a table, a join of two streams and a windowed aggregation behind a repartition topic give each
// result once, and the results of one pass over the input.
func TestShop(t *testing.T) {
	records, rnd, n, ctx := setup(t)
	s := newShop(rnd, records)
	cl := producer(ctx, t, n, "customers", "orders", "payments", "rated", "paid", "totals")
	if err := cl.ProduceSync(ctx, s.tiers...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	got := &shopped{shop: s, rated: make([]bool, len(s.orders)), paid: map[string]bool{}, sums: map[string][2]int{}}
	o := committed.Watch(t, n.Addr, got.take, "rated", "paid", "totals")
	written := make(chan error, 1)
	go func() { written <- write(ctx, cl, s.events) }()
	a := newApp(t, n, "Shop.java", shopProgram, fmt.Sprint(paired.Milliseconds()), fmt.Sprint(window.Milliseconds()))
	a.keepRunning(ctx, rnd, o, 2*len(s.orders)+len(s.pairs))
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	o.Finish(ctx, t)
	if have, want := o.Count(), 2*len(s.orders)+len(s.pairs); have != want {
		t.Errorf("%d records of output, want %d", have, want)
	}
	for key, want := range s.totals {
		if got.sums[key] != want {
			t.Errorf("the total of %s is %v, want %v", key, got.sums[key], want)
		}
	}
	n.Stop(t)
}

package log

import (
	"encoding/hex"
	"path"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// What Apache Kafka 4.4.0 wrote for two producers on transactions v2: both write, the second aborts, the first aborts,
// commits once and leaves a transaction open. The files of the partition after an orderly stop:
const (
	realTxnLog = "00000000000000000000003a000000000283afc198001000000000000001a22d16f2d1000001a22d16f2d100000000000003" +
		"e80000000000000000000110000000010461310000000000000000010000003a00000000029089bb62001000000000000001" +
		"a22d16f47a000001a22d16f47a00000000000003e90000000000000000000110000000010462310000000000000000020000" +
		"003a0000000002c44fc6b6001000000000000001a22d16f4a5000001a22d16f4a500000000000003e9000000000001000000" +
		"0110000000010462320000000000000000030000003a000000000237dd8995001000000000000001a22d16f4ae000001a22d" +
		"16f4ae00000000000003e8000000000001000000011000000001046132000000000000000004000000420000000002d00c78" +
		"31003000000000000001a22d16f517000001a22d16f51700000000000003e90001ffffffff00000001200000000800000000" +
		"0c000000000002000000000000000005000000420000000002118b427a003000000000000001a22d16f51c000001a22d16f5" +
		"1c00000000000003e80001ffffffff000000012000000008000000000c0000000000020000000000000000060000003a0000" +
		"0000028d9d1986001000000000000001a22d16f4e5000001a22d16f4e500000000000003e800010000000000000001100000" +
		"00010461330000000000000000070000004200000000026d463f33003000000000000001a22d16f542000001a22d16f54200" +
		"000000000003e80002ffffffff000000012000000008000000010c0000000000020000000000000000080000003a00000000" +
		"02966fc3f0001000000000000001a22d16f53e000001a22d16f53e00000000000003e8000200000000000000011000000001" +
		"04613400"
	realTxnIndex = "000000000000000003e9000000000000000100000000000000040000000000000000000000000000000003e8000000000000" +
		"000000000000000000050000000000000006"
	realTxnSnapshot = "00012e0640be0000000200000000000003e8000200000000000000000000000800000000000001a22d16f53e000000020000" +
		"00000000000800000000000003e90001ffffffffffffffffffffffff00000000000001a22d16f51700000002ffffffffffff" +
		"ffff"
)

func fromHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestProducersRealLog replays the log of a real broker and must arrive at its files, byte by byte.
func TestProducersRealLog(t *testing.T) {
	p := new(Producers)
	x, err := OpenTxnIndex(vfs.OS(), path.Join(t.TempDir(), "00000000000000000000.txnindex"))
	if err != nil {
		t.Fatal(err)
	}
	for data := fromHex(t, realTxnLog); len(data) > 0; {
		b := record.Batch(data)
		b, data = b[:b.Size()], data[b.Size():]
		c := ProducerCheck{Origin: FromClient, RequireFirstSequence: true}
		if b.IsControl() {
			c = ProducerCheck{Origin: FromCoordinator, TransactionVersion: 2}
		}
		if v, err := p.Check(b, c); err != nil || v.Duplicate {
			t.Fatalf("batch at %d: %v %v", b.BaseOffset(), v, err)
		}
		if done, ok := p.Update(b); ok && done.Aborted {
			if err := x.Append(done.Entry()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := hex.EncodeToString(p.encode()); got != realTxnSnapshot {
		t.Errorf("snapshot\ngot  %s\nwant %s", got, realTxnSnapshot)
	}
	if got := hex.EncodeToString(x.mustRead(t)); got != realTxnIndex {
		t.Errorf("txn index\ngot  %s\nwant %s", got, realTxnIndex)
	}
	if err := x.Check(0, 9); err != nil {
		t.Error(err)
	}
	if got := p.FirstUnstable(9); got != 8 {
		t.Errorf("first unstable offset %d, the last transaction is open since 8", got)
	}
	var again Producers
	if again, err = decodeSnapshot(fromHex(t, realTxnSnapshot), noTime, noTTL); err != nil || again.FirstUnstable(9) != kafka.Offset(8) {
		t.Errorf("from the snapshot: %v %v", again.All(), err)
	}
}

//go:build unix

package chaos

import (
	"context"
	"errors"
)

// Judge ends a run and says what is wrong: all must be in sync again, every client must come to its end, nobody may have
// been told what is not so, and the files of all nodes must be equal. The nodes are stopped in good order, or killed.
func (l *Load) Judge(ctx context.Context, inOrder bool) (wrong []error) {
	c := l.c
	ctx, cancel := context.WithTimeout(ctx, 2*settleLimit)
	defer cancel()
	note := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	note(c.Settle(ctx))
	found, err := l.Finish(ctx)
	note(err)
	for _, w := range found {
		note(errors.New(w))
	}
	if l.History.Acknowledged() == 0 {
		note(errors.New("nothing was acknowledged: nothing is shown"))
	}
	if len(wrong) > 0 {
		return wrong
	}
	note(c.Settled(ctx, true))
	marks, err := c.Marks(ctx)
	note(err)
	if inOrder {
		note(c.Stop())
	}
	for _, n := range c.Nodes {
		n.Kill()
	}
	compared, err := c.CompareReplicas(marks)
	note(err)
	c.Logf("equal on all nodes: %+v", compared)
	if compared.Partitions < 4*partitions || compared.Bytes == 0 {
		note(errors.New("nothing was compared: nothing is shown"))
	}
	return wrong
}

package powercut

import (
	"context"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// inode shows a node to the kernel.
type inode struct {
	fs.Inode
	d *Disk
	n *node
}

var _ interface {
	fs.NodeLookuper
	fs.NodeGetattrer
	fs.NodeSetattrer
	fs.NodeReaddirer
	fs.NodeMkdirer
	fs.NodeCreater
	fs.NodeOpener
	fs.NodeReader
	fs.NodeWriter
	fs.NodeFsyncer
	fs.NodeUnlinker
	fs.NodeRmdirer
	fs.NodeRenamer
	fs.NodeStatfser
} = (*inode)(nil)

// Mount shows the disk at an empty directory. The kernel caches no names and no attributes of it.
func (d *Disk) Mount(dir string) (unmount func() error, err error) {
	var nothing time.Duration
	server, err := fs.Mount(dir, &inode{d: d, n: d.root}, &fs.Options{
		EntryTimeout: &nothing, AttrTimeout: &nothing, RootStableAttr: &fs.StableAttr{Ino: d.root.ino},
		MountOptions: fuse.MountOptions{DirectMount: true, FsName: "powercut", Name: "powercut", MaxWrite: 1 << 20}})
	if err != nil {
		return nil, err
	}
	return func() error {
		err := server.Unmount()
		if err != nil { // somebody still has a file open
			err = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
		return err
	}, nil
}

func (i *inode) attr(out *fuse.Attr) {
	out.Mode, out.Size, out.Nlink = i.n.stat()
	out.Ino, out.Blksize, out.Blocks = i.n.ino, 4096, (out.Size+511)/512
	out.SetTimes(&i.n.changed, &i.n.changed, &i.n.changed)
	out.Uid, out.Gid = uint32(os.Getuid()), uint32(os.Getgid())
}

// child shows a node below this one. Needs the disk's lock.
func (i *inode) child(ctx context.Context, n *node, out *fuse.EntryOut) *fs.Inode {
	c := &inode{d: i.d, n: n}
	c.attr(&out.Attr)
	return i.NewInode(ctx, c, fs.StableAttr{Mode: out.Attr.Mode & syscall.S_IFMT, Ino: n.ino})
}

func (i *inode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (found *fs.Inode, errno syscall.Errno) {
	errno = i.d.locked(func() syscall.Errno {
		n, errno := i.n.lookup(name)
		if errno == 0 {
			found = i.child(ctx, n, out)
		}
		return errno
	})
	return found, errno
}

func (i *inode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return i.d.locked(func() syscall.Errno { i.attr(&out.Attr); return 0 })
}

func (i *inode) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return i.d.locked(func() syscall.Errno {
		if size, ok := in.GetSize(); ok {
			i.n.resize(int(size))
		}
		if mode, ok := in.GetMode(); ok {
			i.n.mode = mode
		}
		if at, ok := in.GetMTime(); ok {
			i.n.changed = at
		}
		i.attr(&out.Attr)
		return 0
	})
}

func (i *inode) Readdir(context.Context) (list fs.DirStream, errno syscall.Errno) {
	errno = i.d.locked(func() syscall.Errno {
		var all []fuse.DirEntry
		for name, n := range i.n.names {
			mode, _, _ := n.stat()
			all = append(all, fuse.DirEntry{Name: name, Mode: mode, Ino: n.ino})
		}
		slices.SortFunc(all, func(a, b fuse.DirEntry) int { return int(a.Ino) - int(b.Ino) })
		list = fs.NewListDirStream(all)
		return 0
	})
	return list, errno
}

func (i *inode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (made *fs.Inode, errno syscall.Errno) {
	return i.make(ctx, name, true, mode, out)
}

func (i *inode) make(ctx context.Context, name string, isDir bool, mode uint32, out *fuse.EntryOut) (made *fs.Inode,
	errno syscall.Errno) {
	errno = i.d.locked(func() syscall.Errno {
		n, errno := i.d.make(i.n, name, isDir, mode)
		if errno == 0 {
			made = i.child(ctx, n, out)
		}
		return errno
	})
	return made, errno
}

func (i *inode) Create(ctx context.Context, name string, _ uint32, mode uint32, out *fuse.EntryOut) (made *fs.Inode,
	handle fs.FileHandle, flags uint32, errno syscall.Errno) {
	made, errno = i.make(ctx, name, false, mode, out)
	return made, nil, 0, errno
}

func (i *inode) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, i.d.locked(func() syscall.Errno {
		if flags&syscall.O_TRUNC != 0 {
			i.n.resize(0)
		}
		return 0
	})
}

func (i *inode) Read(_ context.Context, _ fs.FileHandle, dest []byte, at int64) (got fuse.ReadResult, errno syscall.Errno) {
	errno = i.d.locked(func() syscall.Errno {
		n := 0
		if at < int64(len(i.n.data)) {
			n = copy(dest, i.n.data[at:])
		}
		got = fuse.ReadResultData(dest[:n])
		return 0
	})
	return got, errno
}

func (i *inode) Write(_ context.Context, _ fs.FileHandle, b []byte, at int64) (uint32, syscall.Errno) {
	errno := i.d.locked(func() syscall.Errno { i.n.write(b, at); return 0 })
	return uint32(len(b)), errno
}

// Fsync serves files and directories.
func (i *inode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return i.d.locked(func() syscall.Errno { return i.d.sync(i.n) })
}

func (i *inode) Unlink(_ context.Context, name string) syscall.Errno {
	return i.d.locked(func() syscall.Errno { return i.n.remove(name, false) })
}

func (i *inode) Rmdir(_ context.Context, name string) syscall.Errno {
	return i.d.locked(func() syscall.Errno { return i.n.remove(name, true) })
}

func (i *inode) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	target, ok := to.(*inode)
	if !ok || flags != 0 {
		return syscall.EINVAL
	}
	return i.d.locked(func() syscall.Errno { return i.n.rename(name, target.n, newName) })
}

func (i *inode) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	return i.d.locked(func() syscall.Errno {
		out.Bsize, out.Frsize, out.NameLen = 4096, 4096, 255
		out.Blocks = 1 << 20
		out.Bfree = out.Blocks - uint64(used(i.d.root))/4096
		out.Bavail = out.Bfree
		out.Files, out.Ffree = 1<<20, 1<<19
		return 0
	})
}

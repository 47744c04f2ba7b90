module moldau/interop/powercut

go 1.26.0

require (
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/twmb/franz-go v1.22.3
	moldau v0.0.0-00010101000000-000000000000
)

require (
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/twmb/franz-go/pkg/kadm v1.20.0 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace moldau => ../..

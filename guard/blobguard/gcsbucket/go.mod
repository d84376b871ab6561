module github.com/fencedlock/fencedlock/guard/blobguard/gcsbucket

go 1.26.0

require (
	cloud.google.com/go/storage v1.70.0
	github.com/fencedlock/fencedlock v0.0.0
	go.uber.org/goleak v1.3.0
)

replace github.com/fencedlock/fencedlock => ../../..

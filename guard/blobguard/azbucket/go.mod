module github.com/fencedlock/fencedlock/guard/blobguard/azbucket

go 1.26.0

require (
	github.com/Azure/azure-sdk-for-go/sdk/storage/azblob v1.8.3
	github.com/fencedlock/fencedlock v0.0.0
	go.uber.org/goleak v1.3.0
)

replace github.com/fencedlock/fencedlock => ../../..

// Package blobguard guards objects in a blob store by a stamp that is written with their content.
package blobguard

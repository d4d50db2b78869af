//go:build tools

// Package kubectl names the program so that go.mod and go.sum cover everything it is built from.
package kubectl

import _ "k8s.io/kubernetes/cmd/kubectl"

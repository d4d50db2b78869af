//go:build tools

// Package helm names the program so that go.mod and go.sum cover everything it is built from.
package helm

import _ "helm.sh/helm/v3/cmd/helm"

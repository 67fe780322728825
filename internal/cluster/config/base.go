package config

import _ "embed" // for the objects of a new cluster

// CoreDNSImage is the image of cluster DNS in Base.
const CoreDNSImage = "slipway.dev/coredns:1.15.0"

// Provisioner is the name by which Base's StorageClass calls for volumes.
const Provisioner = "slipway.dev/local"

// Base are the objects that every cluster with real nodes holds from the start,
// as YAML.
//
//go:embed base.yaml
var Base string

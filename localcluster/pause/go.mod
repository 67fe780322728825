module github.com/slipway-dev/slipway/localcluster/pause

go 1.26.0

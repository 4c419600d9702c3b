#!/bin/sh
# as upstream chromedp/docker-headless-shell: socat in front, because the DevTools server binds loopback only
socat TCP4-LISTEN:9222,fork,reuseaddr,nodelay TCP4:127.0.0.1:9223,nodelay &
exec /usr/lib/chromium/chromium-headless-shell --no-sandbox --use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader \
  --remote-debugging-port=9223 "$@"

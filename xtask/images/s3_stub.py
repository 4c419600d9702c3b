"""STUB of an S3 store (no signatures checked): PUT/GET/HEAD/DELETE /bucket[/key], GET /bucket?list-type=2, GET / ; MinIO's health paths."""
import http.server,os,signal
from urllib.parse import urlparse,unquote
from xml.sax.saxutils import escape
D={}
class H(http.server.BaseHTTPRequestHandler):
    protocol_version="HTTP/1.1"
    def out(s,c,b=b"",ct="application/xml",**h):
        s.send_response(c); s.send_header("content-length",str(len(b))); s.send_header("content-type",ct); s.end_headers()
        if s.command!="HEAD": s.wfile.write(b)
    def go(s):
        p=unquote(urlparse(s.path).path); n=int(s.headers.get("content-length") or 0); body=s.rfile.read(n)
        if p.startswith("/minio/health/"): return s.out(200)
        b,_,k=p.strip("/").partition("/"); m=s.command
        err=lambda c,t: s.out(c,f"<Error><Code>{t}</Code></Error>".encode())
        if not b: return s.out(200,("<ListAllMyBucketsResult><Buckets>"+"".join(f"<Bucket><Name>{escape(x)}</Name></Bucket>" for x in D)+"</Buckets></ListAllMyBucketsResult>").encode())
        if m=="PUT" and not k: D.setdefault(b,{}); return s.out(200)
        if b not in D: return err(404,"NoSuchBucket")
        if not k:
            if m=="DELETE": D.pop(b); return s.out(204)
            return s.out(200,("<ListBucketResult>"+"".join(f"<Contents><Key>{escape(x)}</Key><Size>{len(v)}</Size></Contents>" for x,v in sorted(D[b].items()))+"</ListBucketResult>").encode())
        if m=="PUT": D[b][k]=body; return s.out(200)
        if k not in D[b]: return err(404,"NoSuchKey")
        if m=="DELETE": del D[b][k]; return s.out(204)
        s.out(200,D[b][k],"application/octet-stream")
    do_GET=do_PUT=do_HEAD=do_DELETE=do_POST=go
    def log_message(s,*a): pass
signal.signal(signal.SIGTERM,lambda *_: os._exit(0))
http.server.ThreadingHTTPServer(("0.0.0.0",9000),H).serve_forever()

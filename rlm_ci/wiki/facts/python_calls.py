"""What a call, or an import, of Python says of operation."""

from __future__ import annotations

from rlm_ci.wiki.facts import note as kinds

#: Calls by their full names. A name that ends with a dot stands for all that begins so.
CALLS = {
    **dict.fromkeys(("os.system", "os.popen", "subprocess.getoutput",
                     "subprocess.getstatusoutput", "asyncio.create_subprocess_shell"),
                    kinds.SHELL),
    **dict.fromkeys(("subprocess.run", "subprocess.call", "subprocess.check_call",
                     "subprocess.check_output", "subprocess.Popen", "os.execv", "os.execve",
                     "os.execvp", "os.execvpe", "os.execl", "os.execlp", "os.posix_spawn",
                     "os.posix_spawnp", "os.spawnv", "os.spawnl", "os.startfile", "pty.spawn",
                     "asyncio.create_subprocess_exec"), kinds.PROGRAM),
    **dict.fromkeys(("eval", "exec", "builtins.eval", "builtins.exec", "runpy.run_path",
                     "runpy.run_module", "code.interact"), kinds.CODE),
    **dict.fromkeys(("pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load",
                     "marshal.loads", "shelve.open", "dill.load", "dill.loads", "joblib.load",
                     "yaml.load", "yaml.unsafe_load", "yaml.full_load", "torch.load"),
                    kinds.OBJECTS),
    **dict.fromkeys(("os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree"),
                    kinds.DELETES),
    **dict.fromkeys(("socket.socket", "socket.create_connection", "socket.create_server",
                     "urllib.request.urlopen", "urllib.request.urlretrieve",
                     "http.client.HTTPConnection", "http.client.HTTPSConnection", "smtplib.SMTP",
                     "smtplib.SMTP_SSL", "ftplib.FTP", "ftplib.FTP_TLS", "imaplib.IMAP4",
                     "poplib.POP3", "telnetlib.Telnet", "asyncio.open_connection",
                     "asyncio.start_server", "requests.get", "requests.post", "requests.put",
                     "requests.delete", "requests.request", "requests.Session", "httpx.get",
                     "httpx.post", "httpx.request", "httpx.Client", "httpx.AsyncClient",
                     "urllib3.PoolManager", "aiohttp.ClientSession"), kinds.NETWORK),
    **dict.fromkeys(("threading.Thread", "threading.Timer", "_thread.start_new_thread",
                     "concurrent.futures.ThreadPoolExecutor",
                     "concurrent.futures.ProcessPoolExecutor",
                     "concurrent.futures.thread.ThreadPoolExecutor",
                     "concurrent.futures.process.ProcessPoolExecutor",
                     "multiprocessing.Process", "multiprocessing.Pool", "os.fork", "os.forkpty"),
                    kinds.THREADS),
    **dict.fromkeys(("os.getenv", "os.environ.get", "os.environ.pop", "os.environ.setdefault"),
                    kinds.ENVIRONMENT),
    **dict.fromkeys(("os._exit", "os.abort", "sys.exit"), kinds.ENDS),
}  # fmt: skip
#: Packages that speak to a network for whoever imports them. A name stands for all below it.
SPEAKERS = frozenset((
    "aioboto3", "aiohttp", "aiokafka", "aiomysql", "anthropic", "asyncpg", "asyncssh", "azure",
    "boto3", "botocore", "elasticsearch", "fabric", "ftplib", "github", "gitlab", "google.cloud",
    "grpc", "gunicorn", "h2", "http.client", "http.server", "httpcore", "httplib2", "httpx",
    "httpx2", "hypercorn", "imaplib", "kafka", "ldap3", "mysql.connector", "nntplib", "openai",
    "paho", "paramiko", "pika", "poplib", "psycopg", "psycopg2", "pycurl", "pymongo", "pymysql",
    "redis", "requests", "smtplib", "socketserver", "telnetlib", "tornado", "treq",
    "twisted.internet", "urllib.request", "urllib3", "uvicorn", "waitress", "websocket",
    "websockets", "werkzeug.serving", "wsgiref.simple_server", "xmlrpc", "zmq",
))  # fmt: skip
#: What is taken from such a package, and speaks to nobody.
SILENT = frozenset((
    "_collections", "_types", "contrib", "errors", "exceptions", "fields", "filepost", "models",
    "status_codes", "structures", "types", "typing", "util", "utils",
))  # fmt: skip

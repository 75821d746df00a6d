"""What AllenNLP's environment is made of.

``REQUIREMENTS`` is what we ask for. ``LOCK`` is all that was installed, and found to work, with Python 3.10: upstream
is archived and bounds little of what it needs, so the newest of it drifts away (numpy 2 is one).
"""

from __future__ import annotations

REQUIREMENTS = (
    "allennlp==2.10.1",
    "allennlp-models==2.10.1",
    "torch==1.12.1",
    "transformers==4.20.1",
    "spacy==3.3.3",
    "numpy<2",
)
LOCKED_PYTHON = (3, 10)
LOCK = """
aiohappyeyeballs==2.7.1 aiohttp==3.14.5 aiosignal==1.4.0 async-timeout==5.0.1 attrs==26.1.0 base58==2.1.1
blis==0.7.11 boto3==1.44.5 botocore==1.44.5 cached-path==1.1.6 catalogue==2.0.10 certifi==2026.10.18 cffi==2.1.1
charset-normalizer==3.5.2 click==8.5.1 cloudpickle==3.1.2 commonmark==0.9.2 conllu==4.4.2 cryptography==45.0.7
cymem==2.0.16 datasets==2.10.1 defusedxml==0.7.1 dill==0.3.6 docker-pycreds==0.4.0 exceptiongroup==1.2.2
fairscale==0.4.6 filelock==3.7.1 frozenlist==1.8.0 fsspec==2026.9.0 ftfy==6.3.1 gitdb==4.0.12 GitPython==3.2.1
google-api-core==2.29.0 google-auth==2.62.2 google-cloud-core==2.8.0 google-cloud-storage==2.19.0
google-crc32c==1.9.0 google-resumable-media==2.11.0 googleapis-common-protos==1.73.0 h5py==3.16.0
huggingface-hub==0.10.1 idna==3.20 iniconfig==2.3.1 Jinja2==3.1.6 jmespath==1.1.0 joblib==1.6.0 jsonnet==0.22.0
langcodes==3.5.1 lmdb==3.0.0 MarkupSafe==3.0.4 more-itertools==11.1.0 multidict==7.1.0 multiprocess==0.70.14
murmurhash==1.0.16 nltk==3.10.4 numpy==1.26.4 packaging==26.3 pandas==2.3.3 pathlib_abc==0.5.2 pathtools==0.1.2
pathy==0.14.2 pillow==12.3.0 pluggy==1.7.0 preshed==3.0.15 promise==2.3 propcache==0.5.4 proto-plus==1.27.1
protobuf==3.20.3 psutil==7.2.2 py-rouge==1.1 pyarrow==25.0.1 pyasn1==0.6.5 pyasn1_modules==0.4.2 pycparser==3.11
pydantic==1.8.2 Pygments==2.21.0 pytest==9.2.0 python-dateutil==2.9.0.post0 pytz==2026.6 PyYAML==6.0.3
regex==2026.9.29 requests==2.34.2 responses==0.18.0 rich==12.6.0 s3transfer==0.19.3 sacremoses==0.2.0
scikit-learn==1.7.2 scipy==1.15.3 sentencepiece==0.2.3 sentry-sdk==2.75.0 setproctitle==1.3.8 shortuuid==1.0.13
six==1.17.0 smart-open==6.4.0 smmap==5.0.3 spacy-legacy==3.0.12 spacy-loggers==1.0.5 srsly==2.5.6 tensorboardX==2.6.5
termcolor==1.1.0 thinc==8.0.17 threadpoolctl==3.8.0 tokenizers==0.12.1 tomli==2.5.0 torchvision==0.13.1 tqdm==4.70.1
traitlets==5.16.1 typer==0.4.2 typing_extensions==4.5.0 tzdata==2026.6 urllib3==2.8.0 wandb==0.12.21 wasabi==0.10.1
wcwidth==0.9.4 word2number==1.1 xxhash==4.1.0 yarl==1.25.1
"""


def lock() -> str:
    """``LOCK`` as pip reads it, one a line."""
    return "\n".join((*REQUIREMENTS, *LOCK.split())) + "\n"
